// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/theme.h"

#include <QAbstractListModel>
#include <QFuture>
#include <QListView>
#include <QString>
#include <QStringList>
#include <QStyledItemDelegate>

#include <vector>

namespace ui {

/// One model that can be opened.
struct ModelRow {
    QString name;
    QString path;
    QString detail;  ///< architecture and size
    QString problem; ///< why it cannot be opened; empty when it can
    bool recent = false;
    bool hint = false;   ///< says why there is nothing
    bool header = false; ///< a heading, not a model
};

/// Recently opened models, then the models of our own folder.
class ModelList : public QAbstractListModel {
    Q_OBJECT
public:
    enum Role { PathRole = Qt::UserRole, DetailRole, ProblemRole, HeaderRole, LoadedRole };

    using QAbstractListModel::QAbstractListModel;
    void setRows(std::vector<ModelRow> rows);
    void setLoadedPath(const QString &path);
    [[nodiscard]] int rowCount(const QModelIndex &parent = {}) const override;
    [[nodiscard]] QVariant data(const QModelIndex &index, int role) const override;
    [[nodiscard]] Qt::ItemFlags flags(const QModelIndex &index) const override;

    /// Reads the headers of the folder's files and of the recent ones. Any thread; may take seconds.
    [[nodiscard]] static std::vector<ModelRow> read(const QString &folder, const QStringList &recent);
    /// read() on a thread of the global pool.
    [[nodiscard]] static QFuture<std::vector<ModelRow>> readLater(const QString &folder, const QStringList &recent);

private:
    std::vector<ModelRow> m_rows;
    QString m_loaded;
};

/// Draws the rows of a ModelList: name, detail or problem, and a mark on the loaded one.
class ModelDelegate : public QStyledItemDelegate {
    Q_OBJECT
public:
    explicit ModelDelegate(Theme &theme, QObject *parent = nullptr);
    void paint(QPainter *painter, const QStyleOptionViewItem &option, const QModelIndex &index) const override;
    [[nodiscard]] QSize sizeHint(const QStyleOptionViewItem &option, const QModelIndex &index) const override;

private:
    Theme &m_theme;
};

} // namespace ui
