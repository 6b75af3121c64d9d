// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/chat_view.h"

#include <QAccessible>
#include <QApplication>
#include <QClipboard>
#include <QContextMenuEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QScrollBar>
#include <QTextBoundaryFinder>
#include <QTimer>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>
#include <utility>

namespace ui {
namespace {

constexpr int autoScrollMs = 30;

} // namespace

QPointF ChatView::toBlock(const QPointF &at, int block) const
{
    return at - QPointF(left(), blockTop(block));
}

/// Where a point lies in the text; clamped to the text of its block.
TextPosition ChatView::positionAt(const QPointF &at)
{
    if (m_document.blockCount() == 0)
        return {};
    const int block = blockAt(at.y());
    ensure(block);
    const QPointF in = toBlock(at, block);
    return m_document.block(block).kind == Block::Kind::Code ? codePositionAt(block, in) : bodyPositionAt(block, in);
}

TextPosition ChatView::codePositionAt(int index, const QPointF &in)
{
    Block &block = m_document.block(index);
    if (block.code.count() == 0)
        return {index, 0, 0};
    const double row = (in.y() - metrics::gap / 2 - metrics::codeHead) / metrics::line;
    const int line = std::clamp(static_cast<int>(std::floor(row)), 0, block.code.count() - 1);
    QTextLayout &layout = m_layout.codeLine(block, m_document.messageOf(block).view, line);
    if (row < 0)
        return {index, 0, 0};
    if (row >= block.code.count())
        return {index, line, static_cast<int>(layout.text().size())};
    return {index, line, layout.lineAt(0).xToCursor(in.x() - codeLeft + block.scrollX)};
}

TextPosition ChatView::bodyPositionAt(int index, const QPointF &in) const
{
    const Block &block = m_document.block(index);
    const double x = in.x() - BlockPainter::textLeft(block, column());
    double bestDistance = 1e9;
    int best = -1;
    for (std::size_t k = 0; k < block.pieces.size(); ++k) {
        const LaidPiece &laid = block.pieces[k];
        if (!laid.layout || laid.layout->lineCount() == 0)
            continue;
        const double below = in.y() - (laid.y + laid.height);
        const double above = laid.y - in.y();
        const double beside = std::max({0.0, laid.x - x, x - laid.x - laid.box});
        const double distance = std::max({0.0, below, above}) * 1000 + beside;
        if (distance < bestDistance) {
            bestDistance = distance;
            best = static_cast<int>(k);
        }
    }
    if (best < 0)
        return {index, 0, 0};
    const LaidPiece &laid = block.pieces[static_cast<std::size_t>(best)];
    int line = 0;
    while (line + 1 < laid.layout->lineCount()
           && in.y() - laid.y >= laid.height * (line + 1) / laid.layout->lineCount())
        ++line;
    return {index, best, laid.layout->lineAt(line).xToCursor(x - laid.x)};
}

QString ChatView::linkAt(const QPointF &at)
{
    const int index = m_document.blockCount() > 0 ? blockAt(at.y()) : -1;
    if (index < 0 || m_document.block(index).kind != Block::Kind::Body)
        return {};
    ensure(index);
    const Block &block = m_document.block(index);
    const QPointF in = toBlock(at, index) - QPointF(BlockPainter::textLeft(block, column()), 0);
    for (const LaidPiece &laid : block.pieces) {
        if (!laid.layout || in.y() < laid.y || in.y() >= laid.y + laid.height || in.x() < laid.x
            || in.x() > laid.x + laid.box)
            continue;
        for (int l = 0; l < laid.layout->lineCount(); ++l) {
            const QTextLine line = laid.layout->lineAt(l);
            if (!line.naturalTextRect().adjusted(0, -3, 0, 3).contains(in - QPointF(laid.x, laid.y)))
                continue;
            const int offset = line.xToCursor(in.x() - laid.x, QTextLine::CursorOnCharacter);
            for (const TextSpan &span : laid.piece.spans)
                if ((span.style & TextSpan::Link) && offset >= span.start && offset < span.start + span.length)
                    return span.href;
        }
    }
    return {};
}

const BlockTarget *ChatView::targetAt(const QPointF &at, int *message)
{
    if (m_document.blockCount() == 0)
        return nullptr;
    const int last = m_document.messageCount() - 1;
    const int index = blockAt(at.y());
    QPointF in = toBlock(at, index);
    QVector<BlockTarget> targets;
    const double end = blockTop(m_document.blockCount());
    if (tailHeight() > 0 && at.y() >= end) {
        *message = last;
        in = at - QPointF(left(), end);
        targets = m_painter.footerTargets(m_document.message(last).view.footer, column(), 6);
    } else {
        const Block &block = m_document.block(index);
        *message = block.message;
        targets = m_painter.targets(block, m_document.messageOf(block).view, column(), m_document.heights().at(index));
    }
    for (const BlockTarget &target : targets) {
        if (target.rect.contains(in)) {
            m_hit = target;
            return &m_hit;
        }
    }
    return nullptr;
}

QVector<BlockTarget> ChatView::messageTargets(int message) const
{
    QVector<BlockTarget> out;
    const auto place = [&](QVector<BlockTarget> targets, double top) {
        for (BlockTarget &target : targets) {
            if (target.kind == BlockTarget::Kind::ScrollHandle)
                continue;
            target.rect.translate(left(), top);
            out.append(target);
        }
    };
    const ViewMessage &view = m_document.message(message).view;
    for (int i = m_document.message(message).firstBlock; i < m_document.endBlock(message); ++i)
        place(m_painter.targets(m_document.block(i), view, column(), m_document.heights().at(i)), blockTop(i));
    if (!view.done)
        place(m_painter.footerTargets(view.footer, column(), 6), blockTop(m_document.blockCount()));
    return out;
}

void ChatView::trigger(int message, const BlockTarget &target)
{
    const qint64 id = m_document.message(message).view.id;
    if (target.kind == BlockTarget::Kind::Action) {
        emit actionTriggered(id, target.id);
    } else if (target.kind == BlockTarget::Kind::Fold) {
        setUnfolded(id, !m_document.message(message).view.unfolded);
    } else if (target.kind == BlockTarget::Kind::CopyCode) {
        const int index = blockAt(target.rect.center().y());
        copyCode(m_document.block(index), target.piece);
    }
}

void ChatView::copyCode(const Block &block, int piece)
{
    const ViewMessage &view = m_document.messageOf(block).view;
    const QString text = piece >= 0           ? block.pieces[static_cast<std::size_t>(piece)].piece.text
        : block.kind == Block::Kind::ToolCall ? view.calls[block.call].arguments
                                              : block.code.text(view.source);
    QApplication::clipboard()->setText(text);
    emit codeCopied();
}

/// Handles a press on a button or scroll handle; true when there was one.
bool ChatView::pressTarget(const QPointF &at)
{
    int message = -1;
    const BlockTarget *hit = targetAt(at, &message);
    if (!hit)
        return false;
    BlockTarget target = *hit;
    const int index = blockAt(at.y());
    if (target.kind == BlockTarget::Kind::ScrollHandle) {
        m_dragBlock = index;
        m_dragGrab = toBlock(at, index).x() - target.rect.left();
        return true;
    }
    target.rect.translate(left(), blockTop(index));
    trigger(message, target);
    return true;
}

void ChatView::mousePressEvent(QMouseEvent *event)
{
    if (event->button() != Qt::LeftButton)
        return;
    m_pressed = event->position();
    if (pressTarget(event->position()))
        return;
    m_pressedLink = linkAt(event->position());
    const TextPosition at = positionAt(event->position());
    ++m_clicks;
    if (m_clicks == 3) {
        selectPiece(at);
    } else {
        m_clicks = 1;
        m_selection.cursor = at;
        if (!(event->modifiers() & Qt::ShiftModifier) || m_selection.anchor.block < 0)
            m_selection.anchor = at;
    }
    m_selecting = true;
    viewport()->update();
}

void ChatView::mouseDoubleClickEvent(QMouseEvent *event)
{
    if (event->button() != Qt::LeftButton || pressTarget(event->position()))
        return;
    selectWord(positionAt(event->position()));
    m_clicks = 2; // a third press in time selects the paragraph
    QTimer::singleShot(QApplication::doubleClickInterval(), this, [this] { m_clicks = 0; });
    viewport()->update();
}

void ChatView::setPointer(const QPointF &at)
{
    m_pointer = at;
    int message = -1;
    const bool onTarget = at.x() >= 0 && targetAt(at, &message);
    if (at.x() >= 0 && m_document.blockCount() > 0)
        message = m_document.block(blockAt(at.y())).message;
    viewport()->setCursor(onTarget                    ? Qt::PointingHandCursor
                              : !linkAt(at).isEmpty() ? Qt::PointingHandCursor
                                                      : Qt::IBeamCursor);
    const int old = std::exchange(m_hovered, message);
    if (old != m_hovered)
        updateMessage(old);
    if (m_hovered >= 0)
        updateMessage(m_hovered);
}

void ChatView::mouseMoveEvent(QMouseEvent *event)
{
    if (!(event->buttons() & Qt::LeftButton)) {
        setPointer(event->position());
        return;
    }
    if (m_dragBlock >= 0) {
        dragScrollHandle(event->position());
        return;
    }
    if (!m_selecting)
        return;
    m_pointer = event->position();
    m_selection.cursor = positionAt(event->position());
    const bool outside = event->position().y() < 0 || event->position().y() > viewport()->height();
    if (outside && !m_autoScroll.isActive())
        m_autoScroll.start(autoScrollMs, this);
    else if (!outside)
        m_autoScroll.stop();
    viewport()->update();
}

/// While the pointer is dragged past an edge, the farther the faster.
void ChatView::autoScroll()
{
    const double over = m_pointer.y() < 0 ? m_pointer.y() : std::max(0.0, m_pointer.y() - viewport()->height());
    verticalScrollBar()->setValue(verticalScrollBar()->value() + static_cast<int>(over / 3));
    m_selection.cursor = positionAt({m_pointer.x(), std::clamp(m_pointer.y(), 0.0, viewport()->height() - 1.0)});
    viewport()->update();
}

void ChatView::mouseReleaseEvent(QMouseEvent *event)
{
    if (event->button() != Qt::LeftButton)
        return;
    m_autoScroll.stop();
    m_dragBlock = -1;
    const bool clicked = (event->position() - m_pressed).manhattanLength() < QApplication::startDragDistance();
    if (clicked && m_selection.isEmpty() && !m_pressedLink.isEmpty() && linkAt(event->position()) == m_pressedLink)
        emit linkActivated(m_pressedLink);
    m_pressedLink.clear();
    if (std::exchange(m_selecting, false))
        putOnPrimary();
}

/// What is selected can be pasted by the middle button where the system knows that.
void ChatView::putOnPrimary()
{
    QClipboard *clipboard = QApplication::clipboard();
    if (clipboard->supportsSelection() && !m_selection.isEmpty())
        clipboard->setText(selectedText(), QClipboard::Selection);
}

void ChatView::selectWord(const TextPosition &at)
{
    if (at.block < 0)
        return;
    const Block &block = m_document.block(at.block);
    const QString text = shownTexts(block, m_document.messageOf(block)).value(at.piece);
    QTextBoundaryFinder finder(QTextBoundaryFinder::Word, text);
    finder.setPosition(std::min<qsizetype>(at.offset, text.size()));
    qsizetype from = finder.isAtBoundary() && (finder.boundaryReasons() & QTextBoundaryFinder::StartOfItem)
        ? finder.position()
        : finder.toPreviousBoundary();
    from = std::max<qsizetype>(0, from);
    finder.setPosition(from);
    const qsizetype to = finder.toNextBoundary();
    m_selection.anchor = {at.block, at.piece, static_cast<int>(from)};
    m_selection.cursor = {at.block, at.piece, static_cast<int>(to < 0 ? text.size() : to)};
    putOnPrimary();
}

void ChatView::selectPiece(const TextPosition &at)
{
    const Block &block = m_document.block(at.block);
    const QString text = shownTexts(block, m_document.messageOf(block)).value(at.piece);
    m_selection.anchor = {at.block, at.piece, 0};
    m_selection.cursor = {at.block, at.piece, static_cast<int>(text.size())};
}

void ChatView::selectAll()
{
    m_selection.anchor = {0, 0, 0};
    m_selection.cursor = {m_document.blockCount(), 0, 0};
    viewport()->update();
}

void ChatView::copySelection()
{
    if (const QString text = selectedText(); !text.isEmpty())
        QApplication::clipboard()->setText(text);
}

void ChatView::scrollSideways(int index, double by)
{
    Block &block = m_document.block(index);
    const double room = block.kind == Block::Kind::Code ? codeFrame(column(), 100).width() - 2 * codeLeft : column();
    block.scrollX = std::clamp(block.scrollX + by, 0.0, std::max(0.0, block.contentWidth - room));
    updateMessage(block.message);
}

void ChatView::dragScrollHandle(const QPointF &at)
{
    const Block &block = m_document.block(m_dragBlock);
    const double room = block.kind == Block::Kind::Code ? codeFrame(column(), 100).width() - 2 * codeLeft : column();
    const double handle = std::max(32.0, room * room / block.contentWidth);
    const double x = toBlock(at, m_dragBlock).x() - m_dragGrab - (block.kind == Block::Kind::Code ? codeLeft : 0);
    const double wanted = x / std::max(1.0, room - handle) * (block.contentWidth - room);
    scrollSideways(m_dragBlock, wanted - block.scrollX);
}

void ChatView::wheelEvent(QWheelEvent *event)
{
    const QPoint angle = event->angleDelta();
    const bool shifted = event->modifiers() & Qt::ShiftModifier;
    const int sideways = shifted && angle.x() == 0 ? angle.y() : angle.x();
    if (std::abs(sideways) > std::abs(shifted ? 0 : angle.y()) && m_document.blockCount() > 0) {
        scrollSideways(blockAt(event->position().y()), -sideways / 2.0);
        event->accept();
        return;
    }
    QAbstractScrollArea::wheelEvent(event);
    if (m_pointer.x() >= 0)
        setPointer(event->position());
}

qint64 ChatView::currentMessage() const
{
    return m_current >= 0 ? m_document.message(m_current).view.id : 0;
}

void ChatView::setCurrentMessage(qint64 id)
{
    const int old = std::exchange(m_current, m_document.indexOf(id));
    updateMessage(old);
    if (m_current < 0)
        return;
    const QRect rect = messageRect(m_current);
    if (rect.top() < 0 || rect.bottom() > viewport()->height())
        verticalScrollBar()->setValue(verticalScrollBar()->value() + rect.top() - 8);
    viewport()->update();
    QAccessibleEvent event(this, QAccessible::Focus);
    event.setChild(m_current);
    QAccessible::updateAccessibility(&event);
}

void ChatView::moveCurrent(int by)
{
    const int count = m_document.messageCount();
    if (count == 0)
        return;
    const int from = m_current < 0 ? (by < 0 ? count : -1) : m_current;
    setCurrentMessage(m_document.message(std::clamp(from + by, 0, count - 1)).view.id);
}

/// Of the message that the keyboard is on, else of the last one that has some.
void ChatView::toggleReasoning()
{
    int message = m_current >= 0 ? m_current : m_document.messageCount() - 1;
    while (m_current < 0 && message >= 0 && !hasReasoning(m_document.message(message).view))
        --message;
    if (message >= 0)
        setUnfolded(m_document.message(message).view.id, !m_document.message(message).view.unfolded);
}

void ChatView::keyPressEvent(QKeyEvent *event)
{
    const bool control = event->modifiers() & Qt::ControlModifier;
    if (event->matches(QKeySequence::Copy))
        copySelection();
    else if (event->matches(QKeySequence::SelectAll))
        selectAll();
    else if (control && event->key() == Qt::Key_Up)
        moveCurrent(-1);
    else if (control && event->key() == Qt::Key_Down)
        moveCurrent(1);
    else if (event->key() == Qt::Key_End)
        jumpToEnd();
    else if (event->key() == Qt::Key_Home)
        verticalScrollBar()->setValue(0);
    else if (event->key() == Qt::Key_Left || event->key() == Qt::Key_Right)
        scrollSideways(std::max(0, blockAt(viewport()->height() / 2.0)), event->key() == Qt::Key_Left ? -60 : 60);
    else if (event->key() == Qt::Key_Space)
        toggleReasoning();
    else if ((event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter) && m_current >= 0)
        emit menuRequested(currentMessage(),
                           viewport()->mapToGlobal(messageRect(m_current).topLeft() + QPoint(40, 40)));
    else
        QAbstractScrollArea::keyPressEvent(event);
}

void ChatView::contextMenuEvent(QContextMenuEvent *event)
{
    if (m_document.blockCount() == 0)
        return;
    const bool byKey = event->reason() == QContextMenuEvent::Keyboard;
    const int message = byKey && m_current >= 0 ? m_current : m_document.block(blockAt(event->pos().y())).message;
    const QPoint at =
        byKey ? viewport()->mapToGlobal(messageRect(message).topLeft() + QPoint(40, 40)) : event->globalPos();
    emit menuRequested(m_document.message(message).view.id, at);
}

void ChatView::focusInEvent(QFocusEvent *event)
{
    QAbstractScrollArea::focusInEvent(event);
    viewport()->update();
}

void ChatView::focusOutEvent(QFocusEvent *event)
{
    QAbstractScrollArea::focusOutEvent(event);
    viewport()->update();
}

bool ChatView::viewportEvent(QEvent *event)
{
    if (event->type() == QEvent::Leave)
        setPointer({-1, -1});
    return QAbstractScrollArea::viewportEvent(event);
}

} // namespace ui
