// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/model_list.h"

#include "engine/library/model_store.h"
#include "ui/format.h"
#include "ui/widgets/paint.h"

#include <QFileInfo>
#include <QPainter>
#include <QPromise>
#include <QThreadPool>

#include <exception>
#include <memory>

namespace ui {

namespace {

ModelRow heading(const QString &name)
{
    ModelRow row;
    row.name = name;
    row.header = true;
    return row;
}

ModelRow recentRow(const QString &path)
{
    const QFileInfo file(path);
    ModelRow row;
    row.name = format::modelName(path);
    row.path = path;
    row.recent = true;
    row.detail = file.isFile()
        ? ModelList::tr("%1 · %2").arg(format::bytes(std::size_t(file.size())), file.absolutePath())
        : file.absolutePath();
    if (!file.exists())
        row.problem = ModelList::tr("the file is no longer there: %1").arg(path);
    return row;
}

/// Stands where models would, and can be neither chosen nor opened.
ModelRow hintRow(const QString &folder)
{
    ModelRow row;
    row.name = ModelList::tr("No model is here yet");
    row.detail = ModelList::tr("Put .gguf files or model folders into %1").arg(folder);
    return row;
}

ModelRow installedRow(const engine::InstalledModel &model)
{
    ModelRow row;
    row.name = QString::fromStdString(model.name);
    row.path = QString::fromStdString(model.path);
    QStringList parts{QString::fromStdString(model.architecture), format::bytes(std::size_t(model.bytes)),
                      QString::fromStdString(model.format)};
    parts.removeAll(QString());
    row.detail = parts.join(QStringLiteral(" · "));
    row.problem = QString::fromStdString(model.problem);
    return row;
}

} // namespace

std::vector<ModelRow> ModelList::read(const QString &folder, const QStringList &recent)
{
    std::vector<ModelRow> rows;
    if (!recent.isEmpty())
        rows.push_back(heading(tr("RECENT")));
    for (const QString &path : recent)
        rows.push_back(recentRow(path));
    rows.push_back(heading(tr("MODEL FOLDER")));
    rows.back().path = folder;
    try {
        for (const engine::InstalledModel &model : engine::listModels(folder.toStdString()))
            rows.push_back(installedRow(model));
        if (rows.back().header)
            rows.push_back(hintRow(folder));
    } catch (const std::exception &fault) { // nothing may leave a pool thread
        ModelRow row;
        row.name = folder;
        row.problem = QString::fromUtf8(fault.what());
        rows.push_back(row);
    }
    return rows;
}

QFuture<std::vector<ModelRow>> ModelList::readLater(const QString &folder, const QStringList &recent)
{
    auto promise = std::make_shared<QPromise<std::vector<ModelRow>>>();
    QFuture<std::vector<ModelRow>> future = promise->future();
    QThreadPool::globalInstance()->start([promise, folder, recent] {
        promise->start();
        promise->addResult(read(folder, recent));
        promise->finish();
    });
    return future;
}

void ModelList::setRows(std::vector<ModelRow> rows)
{
    beginResetModel();
    m_rows = std::move(rows);
    endResetModel();
}

void ModelList::setLoadedPath(const QString &path)
{
    m_loaded = path;
    if (!m_rows.empty())
        emit dataChanged(index(0), index(int(m_rows.size()) - 1));
}

int ModelList::rowCount(const QModelIndex &parent) const
{
    return parent.isValid() ? 0 : int(m_rows.size());
}

QVariant ModelList::data(const QModelIndex &index, int role) const
{
    if (!index.isValid() || std::size_t(index.row()) >= m_rows.size())
        return {};
    const ModelRow &row = m_rows[std::size_t(index.row())];
    switch (role) {
    case Qt::DisplayRole:
        return row.name;
    case Qt::ToolTipRole:
        return row.problem.isEmpty() ? row.path : row.problem;
    case Qt::AccessibleDescriptionRole:
    case DetailRole:
        return role == DetailRole || row.problem.isEmpty() ? row.detail : row.problem;
    case PathRole:
        return row.path;
    case ProblemRole:
        return row.problem;
    case HeaderRole:
        return row.header;
    case LoadedRole:
        return !row.path.isEmpty() && row.path == m_loaded;
    default:
        return {};
    }
}

Qt::ItemFlags ModelList::flags(const QModelIndex &index) const
{
    return index.data(HeaderRole).toBool() || index.data(PathRole).toString().isEmpty()
        ? Qt::NoItemFlags
        : Qt::ItemIsEnabled | Qt::ItemIsSelectable;
}

ModelDelegate::ModelDelegate(Theme &theme, QObject *parent)
    : QStyledItemDelegate(parent)
    , m_theme(theme)
{
}

QSize ModelDelegate::sizeHint(const QStyleOptionViewItem &, const QModelIndex &index) const
{
    return {240, index.data(ModelList::HeaderRole).toBool() ? 34 : 50};
}

void ModelDelegate::paint(QPainter *painter, const QStyleOptionViewItem &option, const QModelIndex &index) const
{
    const Tokens &c = m_theme.tokens();
    painter->setRenderHint(QPainter::Antialiasing);
    const QRectF rect(option.rect);
    const QString name = index.data().toString();
    if (index.data(ModelList::HeaderRole).toBool()) {
        paint::text(*painter, rect.adjusted(8, 8, -8, 0), name, m_theme.ui(10.5, QFont::DemiBold), c.quiet);
        return;
    }
    const bool selected = option.state & QStyle::State_Selected, hovered = option.state & QStyle::State_MouseOver;
    if (selected || hovered)
        paint::bar(*painter, rect.adjusted(0, 0, 0, -4), c.raised, 8, selected ? 1 : .6);
    if (selected && (option.state & QStyle::State_HasFocus)) {
        painter->setPen(QPen(c.accent, 1));
        painter->setBrush(Qt::NoBrush);
        painter->drawRoundedRect(rect.adjusted(.5, .5, -.5, -4.5), 8, 8);
    }
    const QString problem = index.data(ModelList::ProblemRole).toString();
    const bool loaded = index.data(ModelList::LoadedRole).toBool();
    const QRectF text = rect.adjusted(8, 5, loaded ? -74 : -8, -4);
    paint::text(*painter, QRectF(text.x(), text.y(), text.width(), 20), name,
                m_theme.ui(13, loaded ? QFont::DemiBold : QFont::Normal),
                index.flags() & Qt::ItemIsSelectable ? c.text : c.muted);
    paint::text(*painter, QRectF(text.x(), text.y() + 20, text.width(), 18),
                problem.isEmpty() ? index.data(ModelList::DetailRole).toString() : problem, m_theme.ui(11.5),
                problem.isEmpty() ? c.muted : c.badText);
    if (loaded)
        paint::text(*painter, QRectF(rect.right() - 72, rect.y(), 64, rect.height() - 4), tr("loaded"),
                    m_theme.ui(11.5, QFont::Medium), c.okText, Qt::AlignRight);
}

} // namespace ui
