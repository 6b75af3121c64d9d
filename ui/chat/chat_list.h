// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QStyledItemDelegate>
#include <QWidget>

class QLabel;
class QLineEdit;
class QListView;
class QPushButton;
class QToolButton;

namespace ui {

class ChatModel;
class Theme;

/// Paints a chat: dot in its request's colour, title, what it does; the first of a day carries the day's name.
class ChatDelegate final : public QStyledItemDelegate {
public:
    ChatDelegate(const Theme &theme, QObject *parent);
    void paint(QPainter *painter, const QStyleOptionViewItem &option, const QModelIndex &index) const override;
    [[nodiscard]] QSize sizeHint(const QStyleOptionViewItem &option, const QModelIndex &index) const override;
    void updateEditorGeometry(QWidget *editor, const QStyleOptionViewItem &option,
                              const QModelIndex &index) const override;

private:
    const Theme &m_theme;
};

/// The list of chats with search, undo of a deletion and the trash.
class ChatList final : public QWidget {
    Q_OBJECT

public:
    ChatList(Theme &theme, ChatModel &model, QWidget *parent = nullptr);

    void focusSearch();
    /// Empties the search field when the keyboard is in it; false when there was nothing to do.
    bool clearSearch();
    [[nodiscard]] bool isSearchingFor(const QString &text) const;
    /// Marks a chat as the shown one.
    void setCurrent(qint64 id);
    [[nodiscard]] QListView *view() const { return m_view; }
    [[nodiscard]] QLineEdit *searchField() const { return m_search; }

Q_SIGNALS:
    void chatActivated(qint64 id);
    void newChatRequested();
    void searchRequested(const QString &text);
    /// The chat went to the trash.
    void chatRemoved(qint64 id);

protected:
    void paintEvent(QPaintEvent *event) override;
    bool eventFilter(QObject *watched, QEvent *event) override;

private:
    void createTop();
    void createView();
    void createBottom();
    void showMenu(const QPoint &at);
    void remove(qint64 id);
    void undo();
    void showTrash(bool on);
    void updateTrash();
    void applyFilter();
    [[nodiscard]] qint64 currentId() const;

    Theme &m_theme;
    ChatModel &m_model;
    QLineEdit *m_search = nullptr;
    QToolButton *m_new = nullptr;
    QListView *m_view = nullptr;
    QWidget *m_undoBar = nullptr;
    QLabel *m_undoText = nullptr;
    QToolButton *m_trash = nullptr;
    qint64 m_removed = 0;
    qint64 m_current = 0;
};

} // namespace ui
