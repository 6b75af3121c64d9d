// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/chat_list.h"

#include "ui/chat/chat_model.h"
#include "ui/format.h"
#include "ui/theme.h"
#include "ui/widgets/paint.h"

#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QListView>
#include <QMenu>
#include <QPainter>
#include <QPushButton>
#include <QTimer>
#include <QToolButton>
#include <QVBoxLayout>

#include <utility>

namespace ui {
namespace {

constexpr int rowHeight = 50;
constexpr int sectionHeight = 34;
constexpr int undoMs = 12000;

int sectionOffset(const QModelIndex &index)
{
    return index.data(ChatModel::SectionRole).toString().isEmpty() ? 0 : sectionHeight;
}

} // namespace

ChatDelegate::ChatDelegate(const Theme &theme, QObject *parent)
    : QStyledItemDelegate(parent)
    , m_theme(theme)
{
}

QSize ChatDelegate::sizeHint(const QStyleOptionViewItem &, const QModelIndex &index) const
{
    return {180, rowHeight + sectionOffset(index)};
}

void ChatDelegate::updateEditorGeometry(QWidget *editor, const QStyleOptionViewItem &option,
                                        const QModelIndex &index) const
{
    editor->setGeometry(option.rect.adjusted(20, sectionOffset(index) + 8, -8, -10));
}

void ChatDelegate::paint(QPainter *painter, const QStyleOptionViewItem &option, const QModelIndex &index) const
{
    const Tokens &tokens = m_theme.tokens();
    painter->save();
    painter->setRenderHint(QPainter::Antialiasing);
    QRectF row = option.rect;
    if (const QString section = index.data(ChatModel::SectionRole).toString(); !section.isEmpty()) {
        paint::text(*painter, row.adjusted(2, 8, 0, 8 - row.height() + 20), section.toUpper(),
                    m_theme.ui(11, QFont::DemiBold), tokens.muted);
        row.setTop(row.top() + sectionHeight);
    }
    row.adjust(0, 2, 0, -4);
    const bool selected = option.state & QStyle::State_Selected;
    if (selected || (option.state & QStyle::State_MouseOver)) {
        painter->setOpacity(selected ? 1 : 0.5);
        paint::bar(*painter, row, m_theme.lifted(), 8);
        painter->setOpacity(1);
    }
    if (selected && (option.state & QStyle::State_HasFocus)) {
        painter->setPen(QPen(tokens.accent, 1));
        painter->setBrush(Qt::NoBrush);
        painter->drawRoundedRect(row.adjusted(0.5, 0.5, -0.5, -0.5), 8, 8);
    }
    if (const int series = index.data(ChatModel::SeriesRole).toInt(); series >= 0)
        paint::dot(*painter, {row.left() + 13, row.top() + 22}, Theme::series(series));
    const QRectF title(row.left() + 25, row.top() + 5, row.width() - 33, 19);
    paint::text(*painter, title, index.data().toString(), m_theme.ui(13, selected ? QFont::Medium : QFont::Normal),
                tokens.text);
    paint::text(*painter, title.translated(0, 18), index.data(ChatModel::SubtitleRole).toString(), m_theme.ui(11.5),
                tokens.muted);
    painter->restore();
}

ChatList::ChatList(Theme &theme, ChatModel &model, QWidget *parent)
    : QWidget(parent)
    , m_theme(theme)
    , m_model(model)
{
    setMinimumWidth(200);
    createTop();
    createView();
    createBottom();
    auto *top = new QHBoxLayout;
    top->setSpacing(6);
    top->addWidget(m_search);
    top->addWidget(m_new);
    auto *column = new QVBoxLayout(this);
    column->setContentsMargins(12, 14, 12, 10);
    column->setSpacing(6);
    column->addLayout(top);
    column->addWidget(m_view, 1);
    column->addWidget(m_undoBar);
    column->addWidget(m_trash);
    connect(&theme, &Theme::changed, this, qOverload<>(&QWidget::update));
    connect(&model, &ChatModel::trashChanged, this, &ChatList::updateTrash);
    connect(&model, &QAbstractItemModel::modelReset, this, [this] { setCurrent(m_current); });
    updateTrash();
}

void ChatList::createTop()
{
    m_search = new QLineEdit(this);
    m_search->setPlaceholderText(tr("Search chats"));
    auto *keys = new QLabel(tr("Ctrl+K"), m_search);
    keys->setFont(m_theme.ui(11.5));
    keys->setProperty("tone", QStringLiteral("quiet"));
    keys->setAttribute(Qt::WA_TransparentForMouseEvents);
    auto *inside = new QHBoxLayout(m_search);
    inside->setContentsMargins(0, 0, 10, 0);
    inside->addWidget(keys, 0, Qt::AlignRight);
    connect(m_search, &QLineEdit::textChanged, keys, [keys](const QString &text) { keys->setVisible(text.isEmpty()); });
    m_search->setAccessibleName(tr("Search chats"));
    m_search->setClearButtonEnabled(true);
    m_search->setAcceptDrops(false); // a file dropped here is for the window
    m_search->installEventFilter(this);
    connect(m_search, &QLineEdit::textChanged, this, &ChatList::applyFilter);
    m_new = new QToolButton(this);
    m_new->setText(QStringLiteral("+"));
    m_new->setFont(m_theme.ui(18));
    m_new->setFixedSize(32, 32);
    m_new->setToolTip(tr("New chat (Ctrl+N)"));
    m_new->setAccessibleName(tr("New chat"));
    connect(m_new, &QToolButton::clicked, this, &ChatList::newChatRequested);
}

void ChatList::createView()
{
    m_view = new QListView(this);
    m_view->setModel(&m_model);
    m_view->setItemDelegate(new ChatDelegate(m_theme, m_view));
    m_view->setFrameShape(QFrame::NoFrame);
    m_view->setVerticalScrollMode(QAbstractItemView::ScrollPerPixel);
    m_view->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    m_view->setLayoutMode(QListView::Batched); // a list of 100,000 chats must not stop the window
    m_view->setEditTriggers(QAbstractItemView::EditKeyPressed);
    m_view->setContextMenuPolicy(Qt::CustomContextMenu);
    m_view->setMouseTracking(true);
    m_view->setAccessibleName(tr("Chats"));
    m_view->viewport()->setAutoFillBackground(false);
    m_view->installEventFilter(this);
    connect(m_view, &QWidget::customContextMenuRequested, this, &ChatList::showMenu);
    const auto activate = [this](const QModelIndex &index) {
        if (index.isValid() && !m_model.showsTrash())
            emit chatActivated(index.data(ChatModel::IdRole).toLongLong());
    };
    connect(m_view, &QAbstractItemView::clicked, this, activate);
    connect(m_view, &QAbstractItemView::activated, this, activate);
}

void ChatList::createBottom()
{
    m_undoBar = new QWidget(this);
    m_undoText = new QLabel(m_undoBar);
    m_undoText->setTextFormat(Qt::PlainText);
    m_undoText->setText(tr("Chat deleted"));
    auto *button = new QPushButton(tr("Undo"), m_undoBar);
    connect(button, &QPushButton::clicked, this, &ChatList::undo);
    auto *row = new QHBoxLayout(m_undoBar);
    row->setContentsMargins(4, 0, 0, 0);
    row->addWidget(m_undoText, 1);
    row->addWidget(button);
    m_undoBar->hide();
    m_trash = new QToolButton(this);
    m_trash->setCheckable(true);
    m_trash->setToolButtonStyle(Qt::ToolButtonTextOnly);
    connect(m_trash, &QToolButton::toggled, this, &ChatList::showTrash);
}

qint64 ChatList::currentId() const
{
    const QModelIndex index = m_view->currentIndex();
    return index.isValid() ? index.data(ChatModel::IdRole).toLongLong() : 0;
}

void ChatList::focusSearch()
{
    m_search->setFocus(Qt::ShortcutFocusReason);
    m_search->selectAll();
}

bool ChatList::clearSearch()
{
    if (!m_search->hasFocus() || m_search->text().isEmpty())
        return false;
    m_search->clear();
    return true;
}

bool ChatList::isSearchingFor(const QString &text) const
{
    return m_search->text().trimmed() == text;
}

void ChatList::setCurrent(qint64 id)
{
    m_current = id;
    const QModelIndex index = m_model.indexOf(id);
    if (index.isValid() && m_view->currentIndex() != index) {
        m_view->setCurrentIndex(index);
        m_view->scrollTo(index);
    } else if (!index.isValid()) {
        m_view->clearSelection();
    }
}

void ChatList::applyFilter()
{
    const QString text = m_search->text().trimmed();
    m_model.setFilter(text);
    if (text.size() >= 2)
        emit searchRequested(text);
}

void ChatList::remove(qint64 id)
{
    if (id == 0)
        return;
    m_removed = m_model.chat(id) && m_model.chat(id)->record.messageCount > 0 ? id : 0;
    m_model.moveToTrash(id);
    m_undoBar->setVisible(m_removed != 0);
    QTimer::singleShot(undoMs, this, [this, id] {
        if (m_removed == id)
            m_undoBar->hide();
    });
    emit chatRemoved(id);
}

void ChatList::undo()
{
    m_undoBar->hide();
    const qint64 id = std::exchange(m_removed, 0);
    if (id == 0)
        return;
    m_model.restore(id);
    emit chatActivated(id);
}

void ChatList::showTrash(bool on)
{
    m_undoBar->hide();
    m_model.setShowTrash(on);
    updateTrash();
}

void ChatList::updateTrash()
{
    const int count = m_model.trashCount();
    m_trash->setVisible(count > 0 || m_trash->isChecked());
    m_trash->setText(m_trash->isChecked() ? tr("Back to chats") : tr("Trash (%1)").arg(format::count(count)));
}

void ChatList::showMenu(const QPoint &at)
{
    const QModelIndex index = m_view->indexAt(at);
    if (!index.isValid())
        return;
    const qint64 id = index.data(ChatModel::IdRole).toLongLong();
    auto *menu = new QMenu(this);
    menu->setAttribute(Qt::WA_DeleteOnClose);
    if (m_model.showsTrash()) {
        menu->addAction(tr("Restore"), this, [this, id] { m_model.restore(id); });
        menu->addAction(tr("Delete forever"), this, [this, id] { m_model.purge(id); });
    } else {
        menu->addAction(tr("Rename\tF2"), this, [this, id] { m_view->edit(m_model.indexOf(id)); });
        menu->addAction(tr("Delete\tCtrl+Delete"), this, [this, id] { remove(id); });
    }
    menu->popup(m_view->viewport()->mapToGlobal(at));
}

bool ChatList::eventFilter(QObject *watched, QEvent *event)
{
    if (event->type() != QEvent::KeyPress)
        return QWidget::eventFilter(watched, event);
    const auto *key = static_cast<QKeyEvent *>(event);
    if (watched == m_view && key->key() == Qt::Key_Delete && (key->modifiers() & Qt::ControlModifier)) {
        if (!m_model.showsTrash())
            remove(currentId());
        return true;
    }
    if (watched == m_view && (key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter)) {
        if (currentId() != 0 && !m_model.showsTrash())
            emit chatActivated(currentId());
        return true;
    }
    if (watched == m_search && (key->key() == Qt::Key_Down || key->key() == Qt::Key_Return) && m_model.rowCount() > 0) {
        m_view->setFocus();
        m_view->setCurrentIndex(m_model.index(0));
        return true;
    }
    return QWidget::eventFilter(watched, event);
}

void ChatList::paintEvent(QPaintEvent *)
{
    QPainter painter(this);
    painter.fillRect(rect(), m_theme.tokens().bg);
    painter.fillRect(QRect(width() - 1, 0, 1, height()), m_theme.tokens().line);
}

} // namespace ui
