// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/chat_view.h"

#include "ui/chat/chat_accessible.h"
#include "ui/theme.h"

#include <QAccessible>
#include <QPaintEvent>
#include <QPainter>
#include <QPushButton>
#include <QScrollBar>

#include <algorithm>
#include <cmath>
#include <utility>

namespace ui {
namespace {

constexpr int keptBlocks = 400; // on each side of what is seen keep their layouts
constexpr int nearEnd = 4;      // pixels that still count as the end
constexpr int settlePasses = 8; // laying out what becomes visible may bring more into view

/// Whether a block is painted from pieces, which are dropped when it is far away.
bool hasPieces(const Block &block, const ViewMessage &message)
{
    switch (block.kind) {
    case Block::Kind::Thought:
        return message.unfolded;
    case Block::Kind::Plain:
    case Block::Kind::Body:
        return block.range.begin != block.range.end;
    case Block::Kind::ToolCall:
    case Block::Kind::Notice:
        return true;
    default:
        return false;
    }
}

} // namespace

ChatView::ChatView(const Theme &theme, QWidget *parent)
    : QAbstractScrollArea(parent)
    , m_theme(theme)
    , m_layout(theme)
    , m_painter(theme, m_layout)
{
    installChatAccessibility();
    setFrameShape(QFrame::NoFrame);
    setFocusPolicy(Qt::StrongFocus);
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    setAccessibleName(tr("Conversation"));
    viewport()->setCursor(Qt::IBeamCursor);
    viewport()->setAttribute(Qt::WA_OpaquePaintEvent); // scrolling may then move pixels instead of painting all
    viewport()->setMouseTracking(true);
    createJumpButton();
    connect(&theme, &Theme::changed, this, &ChatView::layOutAgain);
    connect(verticalScrollBar(), &QScrollBar::valueChanged, this, &ChatView::placeJumpButton);
}

ChatView::~ChatView() = default;

void ChatView::createJumpButton()
{
    m_jump = new QPushButton(tr("Jump to end ↓"), this);
    m_jump->setAccessibleName(tr("Jump to end"));
    m_jump->setCursor(Qt::ArrowCursor);
    m_jump->hide();
    connect(m_jump, &QPushButton::clicked, this, &ChatView::jumpToEnd);
}

void ChatView::placeJumpButton()
{
    const bool away = !m_follow && verticalScrollBar()->maximum() - verticalScrollBar()->value() > 40;
    if (away != !m_jump->isHidden())
        m_jump->setVisible(away);
    if (!away)
        return;
    m_jump->adjustSize();
    m_jump->move((viewport()->width() - m_jump->width()) / 2, viewport()->height() - m_jump->height() - 12);
    m_jump->raise();
}

double ChatView::column() const
{
    return std::floor(std::max(120.0, std::min(viewport()->width() - 2 * metrics::side, metrics::columnWidth)));
}

double ChatView::left() const
{
    return std::floor(std::max(metrics::side, (viewport()->width() - column()) / 2));
}

double ChatView::scroll() const
{
    return verticalScrollBar()->value();
}

double ChatView::blockTop(int block) const
{
    return m_document.heights().before(block) + metrics::top - scroll();
}

/// Room for the footer of an answer that still grows: the same as its footer block takes later.
double ChatView::tailHeight() const
{
    const int last = m_document.messageCount() - 1;
    return last >= 0 && !m_document.message(last).view.done ? metrics::footer : 0;
}

double ChatView::contentHeight() const
{
    return metrics::top + m_document.heights().total() + tailHeight() + metrics::bottom;
}

int ChatView::maximumScroll() const
{
    return std::max(0, static_cast<int>(std::ceil(contentHeight())) - viewport()->height());
}

int ChatView::blockAt(double y) const
{
    return m_document.heights().find(std::max(0.0, y + scroll() - metrics::top));
}

void ChatView::clear()
{
    m_document.clear();
    m_dirty.clear();
    m_selection = {};
    m_hovered = m_current = m_dragBlock = -1;
    m_laidFirst = 0;
    m_laidLast = -1;
    m_follow = true;
    updateRange(0);
}

void ChatView::addMessages(const std::vector<ViewMessage> &messages)
{
    flush();
    const int first = m_document.blockCount();
    for (const ViewMessage &message : messages)
        m_document.addMessage(message);
    if (isVisible())
        updateRange(first);
}

void ChatView::noteChange(int message)
{
    if (!m_dirty.contains(message))
        m_dirty.append(message);
    if (isVisible() && !m_frame.isActive())
        m_frame.start(frameMs, this);
}

void ChatView::append(qint64 id, const QString &text, MessagePart part)
{
    const int message = m_document.indexOf(id);
    if (message < 0 || text.isEmpty())
        return;
    const ViewMessage &view = m_document.message(message).view;
    const bool thinking = isThinking(view);
    m_document.append(message, text, part);
    if (thinking && !isThinking(view)) // its line, far above what grows, says something else now
        updateMessage(message);
    noteChange(message);
}

void ChatView::setReasoningTime(qint64 id, double ms)
{
    const int message = m_document.indexOf(id);
    if (message < 0)
        return;
    m_document.message(message).view.reasoningMs = ms;
    updateMessage(message);
}

void ChatView::setUnfolded(qint64 id, bool on)
{
    const int message = m_document.indexOf(id);
    if (message < 0 || !hasReasoning(m_document.message(message).view))
        return;
    flush();
    const int changed = m_document.setUnfolded(message, on);
    if (changed == m_document.blockCount())
        return;
    // Who follows a thinking model goes on following it; else the clicked line must not slip away.
    if (m_follow && !isThinking(m_document.message(message).view))
        m_follow = false;
    updateRange(changed);
    m_follow = m_follow || verticalScrollBar()->value() >= verticalScrollBar()->maximum() - nearEnd;
    placeJumpButton();
}

void ChatView::finish(qint64 id, const MessageFooter &footer, const MessageNotice &notice)
{
    const int message = m_document.indexOf(id);
    if (message < 0 || m_document.message(message).view.done)
        return;
    flush();
    m_document.finish(message, footer, notice);
    updateRange(m_document.message(message).firstBlock);
    // A finished message is announced once; an event per token would drown a screen reader.
    QAccessibleEvent event(this, QAccessible::NameChanged);
    event.setChild(message);
    QAccessible::updateAccessibility(&event);
}

void ChatView::setFooter(qint64 id, const MessageFooter &footer)
{
    const int message = m_document.indexOf(id);
    if (message < 0 || m_document.message(message).view.footer == footer)
        return;
    m_document.message(message).view.footer = footer;
    if (m_document.message(message).view.done)
        updateMessage(message);
    else // a growing message has its footer below the last block
        viewport()->update(0, static_cast<int>(blockTop(m_document.blockCount())), viewport()->width(),
                           static_cast<int>(metrics::footer));
}

void ChatView::removeFrom(qint64 id)
{
    const int message = m_document.indexOf(id);
    if (message < 0)
        return;
    m_dirty.removeIf([message](int m) { return m >= message; });
    m_document.truncate(message);
    m_selection = {};
    m_hovered = -1;
    m_current = m_current >= message ? -1 : m_current;
    m_laidLast = std::min(m_laidLast, m_document.blockCount() - 1);
    updateRange(0);
}

void ChatView::flush()
{
    m_frame.stop();
    if (m_dirty.isEmpty())
        return;
    int changed = m_document.blockCount();
    for (const int message : std::exchange(m_dirty, {}))
        changed = std::min(changed, m_document.update(message));
    if (isVisible())
        updateRange(changed);
}

void ChatView::ensure(int index)
{
    Block &block = m_document.block(index);
    if (block.laid && (!block.pieces.empty() || !hasPieces(block, m_document.messageOf(block).view)))
        return;
    const double height = m_layout.layOut(block, m_document.message(block.message), column());
    m_document.heights().set(index, height);
    m_laidFirst = m_laidLast < 0 ? index : std::min(m_laidFirst, index);
    m_laidLast = std::max(m_laidLast, index);
}

void ChatView::setScroll(double value)
{
    const bool moving = std::exchange(m_moving, true);
    verticalScrollBar()->setValue(static_cast<int>(std::lround(value)));
    m_moving = moving;
}

/// Scrolling up, blocks enter with their lower edge: what was on screen must not move when an estimate becomes a
/// height. True when something was corrected.
bool ChatView::settleAbove()
{
    if (scroll() >= m_lastTop)
        return false;
    const bool near = m_lastTop - scroll() < viewport()->height(); // after a far jump nothing is on screen to keep
    bool moved = false;
    for (int i = std::max(0, near ? m_document.heights().find(m_lastTop - metrics::top) : blockAt(0)); i >= 0; --i) {
        const double old = m_document.heights().at(i);
        const bool cutByTheEdge = blockTop(i) < 0;
        ensure(i);
        const double grown = m_document.heights().at(i) - old;
        if (grown != 0 && (near || cutByTheEdge)) {
            const bool moving = std::exchange(m_moving, true);
            verticalScrollBar()->setMaximum(maximumScroll());
            m_moving = moving;
            setScroll(scroll() + grown);
            moved = true;
        }
        if (blockTop(i) <= 0)
            break;
    }
    return moved;
}

/// Lays out what can be seen; true when heights or the position changed, so that pixels cannot just be moved.
bool ChatView::settleVisible()
{
    if (m_document.blockCount() == 0)
        return true;
    const bool settling = std::exchange(m_settling, true);
    const double before = m_document.heights().total();
    bool changed = settleAbove();
    const int first = std::max(0, blockAt(0));
    int block = first;
    for (double y = blockTop(first); block < m_document.blockCount() && y < viewport()->height(); ++block) {
        ensure(block);
        y += m_document.heights().at(block);
    }
    m_lastTop = scroll();
    dropFarLayouts(first, block);
    changed = changed || m_document.heights().total() != before;
    m_settling = settling;
    return changed;
}

void ChatView::dropFarLayouts(int first, int last)
{
    const int lowest = std::max(0, first - keptBlocks);
    const int highest = last + keptBlocks;
    const auto drop = [this](int i) {
        m_document.block(i).pieces.clear();
        m_document.block(i).lines.clear();
    };
    for (int i = m_laidFirst; i < std::min(lowest, m_document.blockCount()); ++i)
        drop(i);
    for (int i = std::max(m_laidFirst, highest + 1); i <= std::min(m_laidLast, m_document.blockCount() - 1); ++i)
        drop(i);
    m_laidFirst = std::max(m_laidFirst, lowest);
    m_laidLast = std::min(m_laidLast, highest);
}

/// The blocks from `changedBlock` on differ: sets the bar's range, follows the end and repaints what is needed.
void ChatView::updateRange(int changedBlock)
{
    QScrollBar *bar = verticalScrollBar();
    const int page = viewport()->height();
    const int before = bar->value();
    const bool wasSettling = std::exchange(m_settling, true);
    const double top =
        changedBlock < m_document.blockCount() ? blockTop(changedBlock) : blockTop(m_document.blockCount());
    bool changed = false;
    for (int pass = 0; pass < settlePasses; ++pass) {
        bar->setPageStep(page);
        bar->setSingleStep(static_cast<int>(metrics::line));
        const bool moving = std::exchange(m_moving, true);
        bar->setRange(0, maximumScroll());
        m_moving = moving;
        if (m_follow)
            setScroll(bar->maximum());
        const double total = m_document.heights().total();
        changed = settleVisible() || changed;
        if (m_document.heights().total() == total)
            break;
    }
    m_settling = wasSettling;
    placeJumpButton();
    // What lies above the changed block has only moved, if at all.
    const int moved = before - bar->value();
    const int from = std::clamp(static_cast<int>(std::floor(top)) + moved - 2, 0, page);
    if (moved != 0 && std::abs(moved) < page && changedBlock > 0)
        viewport()->scroll(0, moved);
    else if (moved != 0 || changedBlock <= 0)
        viewport()->update();
    viewport()->update(0, from, viewport()->width(), page - from);
}

void ChatView::scrollContentsBy(int, int dy)
{
    if (!m_moving)
        m_follow = verticalScrollBar()->value() >= verticalScrollBar()->maximum() - nearEnd;
    if (m_settling)
        return; // the caller repaints
    if (settleVisible()) {
        updateRange(0);
        return;
    }
    if (std::abs(dy) < viewport()->height())
        viewport()->scroll(0, dy);
    else
        viewport()->update();
}

/// Everything is laid out anew (width, theme, font), and the reader stays at the same text.
void ChatView::layOutAgain()
{
    const int anchor = m_document.blockCount() > 0 ? blockAt(0) : -1;
    const double height = anchor >= 0 ? std::max(1.0, m_document.heights().at(anchor)) : 1;
    const double share = anchor >= 0 ? -blockTop(anchor) / height : 0;
    for (int i = 0; i < m_document.blockCount(); ++i) {
        Block &block = m_document.block(i);
        block.laid = false;
        block.pieces.clear();
        block.lines.clear();
        block.scrollX = block.contentWidth = 0;
    }
    for (int i = 0; i < m_document.messageCount(); ++i)
        m_document.message(i).tableColumns.clear();
    m_laidFirst = 0;
    m_laidLast = -1;
    if (anchor >= 0 && !m_follow) {
        ensure(anchor);
        const bool settling = std::exchange(m_settling, true);
        setScroll(m_document.heights().before(anchor) + metrics::top + share * m_document.heights().at(anchor));
        m_settling = settling;
    }
    m_lastTop = scroll();
    updateRange(0);
}

void ChatView::jumpToEnd()
{
    m_follow = true;
    updateRange(0);
    setFocus();
}

void ChatView::resizeEvent(QResizeEvent *event)
{
    if (event->size().width() != event->oldSize().width())
        layOutAgain();
    else
        updateRange(0);
}

void ChatView::changeEvent(QEvent *event)
{
    if (event->type() == QEvent::FontChange)
        layOutAgain();
    QAbstractScrollArea::changeEvent(event);
}

void ChatView::showEvent(QShowEvent *event)
{
    QAbstractScrollArea::showEvent(event);
    flush();
    updateRange(0);
}

void ChatView::timerEvent(QTimerEvent *event)
{
    if (event->timerId() == m_frame.timerId())
        flush();
    else if (event->timerId() == m_autoScroll.timerId())
        autoScroll();
    else
        QAbstractScrollArea::timerEvent(event);
}

void ChatView::paintEvent(QPaintEvent *event)
{
    QPainter painter(viewport());
    painter.fillRect(event->rect(), m_theme.tokens().bg);
    painter.setRenderHint(QPainter::Antialiasing);
    if (m_document.blockCount() > 0)
        paintBlocks(painter, event->rect());
    paintCurrentMark(painter);
}

void ChatView::paintBlocks(QPainter &painter, const QRect &dirty)
{
    const double before = m_document.heights().total();
    int index = std::max(0, blockAt(dirty.top()));
    double y = blockTop(index);
    for (; index < m_document.blockCount() && y <= dirty.bottom(); ++index) {
        ensure(index);
        Block &block = m_document.block(index);
        BlockPainter::State state;
        state.column = column();
        state.height = m_document.heights().at(index);
        state.clip = QRectF(dirty).translated(-left(), -y);
        state.active = block.message == m_hovered || (block.message == m_current && hasFocus());
        state.pointer = m_pointer.x() < 0 ? m_pointer : m_pointer - QPointF(left(), y);
        state.selection = m_selection.isEmpty() ? nullptr : &m_selection;
        state.index = index;
        painter.save();
        painter.translate(left(), y);
        m_painter.paint(painter, block, m_document.message(block.message).view, state);
        painter.restore();
        y += state.height;
    }
    if (index == m_document.blockCount())
        paintTail(painter, y);
    if (m_document.heights().total() != before) // seen first by this painting; positions follow at once
        QMetaObject::invokeMethod(this, [this] { updateRange(0); }, Qt::QueuedConnection);
}

void ChatView::paintTail(QPainter &painter, double y)
{
    if (tailHeight() == 0)
        return;
    painter.save();
    painter.translate(left(), y);
    const MessageFooter &footer = m_document.message(m_document.messageCount() - 1).view.footer;
    m_painter.paintFooter(painter, footer, column(), m_pointer - QPointF(left(), y), true);
    painter.restore();
}

void ChatView::paintCurrentMark(QPainter &painter)
{
    if (m_current < 0 || !hasFocus())
        return;
    const QRect rect = messageRect(m_current);
    painter.setPen(Qt::NoPen);
    painter.setBrush(m_theme.tokens().accent);
    painter.drawRoundedRect(QRectF(left() - 14, rect.top() + 8, 3, rect.height() - 16), 1.5, 1.5);
}

QRect ChatView::messageRect(int message) const
{
    const int first = m_document.message(message).firstBlock;
    const int end = m_document.endBlock(message);
    const double top = m_document.heights().before(first);
    const double height = m_document.heights().before(end) - top;
    return {0, static_cast<int>(top + metrics::top - scroll()), viewport()->width(), static_cast<int>(height)};
}

void ChatView::updateMessage(int message)
{
    if (message < 0 || message >= m_document.messageCount())
        return;
    QRect rect = messageRect(message);
    rect.setHeight(rect.height() + static_cast<int>(metrics::footer));
    viewport()->update(rect);
}

} // namespace ui
