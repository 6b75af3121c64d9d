// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/block_painter.h"

#include "ui/theme.h"

#include <QCoreApplication>
#include <QFontMetricsF>
#include <QPainter>
#include <QPolygonF>

#include <algorithm>

namespace ui {
namespace {

using Role = Piece::Role;
constexpr double actionGap = 18;

QString copyLabel()
{
    return QCoreApplication::translate("ui::ChatView", "Copy");
}

QColor selectionColor(const Tokens &tokens)
{
    QColor color = tokens.accent;
    color.setAlphaF(0.35F);
    return color;
}

} // namespace

QRectF codeFrame(double column, double height)
{
    return {0.5, metrics::gap / 2 + 0.5, column - 1, height - metrics::gap * 1.5 - 1};
}

double BlockPainter::textLeft(const Block &block, double column)
{
    if (block.kind == Block::Kind::Plain)
        return column - block.width;
    return -block.scrollX;
}

QVector<QTextLayout::FormatRange> BlockPainter::selectionOf(const State &state, int piece, int length) const
{
    if (!state.selection)
        return {};
    const auto [from, to] = state.selection->within(state.index, piece, length);
    if (to <= from)
        return {};
    QTextCharFormat format;
    format.setBackground(selectionColor(m_theme.tokens()));
    return {{from, to - from, format}};
}

void BlockPainter::paint(QPainter &painter, Block &block, const ViewMessage &message, const State &state)
{
    switch (block.kind) {
    case Block::Kind::Sender:
        painter.setFont(m_theme.ui(12, QFont::DemiBold));
        painter.setPen(m_theme.tokens().muted);
        painter.drawText(QPointF(0, metrics::sender - 16), message.sender);
        break;
    case Block::Kind::Plain:
        paintBubble(painter, block, state);
        paintBody(painter, block, message, state);
        break;
    case Block::Kind::Body:
        paintBody(painter, block, message, state);
        break;
    case Block::Kind::Code:
        paintCode(painter, block, message, state);
        break;
    case Block::Kind::ThoughtHead:
        paintThoughtHead(painter, block, message, state);
        break;
    case Block::Kind::Thought:
        paintThought(painter, block, message, state);
        break;
    case Block::Kind::ToolCall:
        paintToolCall(painter, block, message, state);
        break;
    case Block::Kind::Notice:
        paintNotice(painter, block, message, state);
        break;
    case Block::Kind::Footer:
        if (message.role == ViewMessage::Role::Assistant || state.active)
            paintFooter(painter, message.footer, state.column, state.pointer, state.active);
        break;
    }
}

/// A long message is one bubble over several blocks: each paints its part of a rounded rectangle.
void BlockPainter::paintBubble(QPainter &painter, const Block &block, const State &state)
{
    QRectF bubble(state.column - block.width, 0, block.width, state.height);
    painter.save();
    painter.setClipRect(bubble, Qt::IntersectClip);
    bubble.adjust(0, block.first ? 0 : -40, 0, block.last ? 0 : 40);
    painter.setPen(Qt::NoPen);
    painter.setBrush(m_theme.lifted());
    painter.drawRoundedRect(bubble, 12, 12);
    painter.restore();
}

void BlockPainter::paintCodeSpans(QPainter &painter, const LaidPiece &laid, const QPointF &at)
{
    painter.setPen(Qt::NoPen);
    painter.setBrush(m_theme.lifted());
    for (const TextSpan &span : laid.piece.spans) {
        if (!(span.style & TextSpan::Code))
            continue;
        for (int l = laid.layout->lineForTextPosition(span.start).lineNumber(); l < laid.layout->lineCount(); ++l) {
            const QTextLine line = laid.layout->lineAt(l);
            const int from = std::max(span.start, line.textStart());
            const int to = std::min(span.start + span.length, line.textStart() + line.textLength());
            if (from >= to)
                break;
            const double left = line.cursorToX(from);
            const double right = line.cursorToX(to);
            painter.drawRoundedRect(
                QRectF(at.x() + left - 2, at.y() + line.y() - 1, right - left + 4, line.height() + 2), 4, 4);
        }
    }
}

/// Code inside a list or a quote has its own small panel.
void BlockPainter::paintPanel(QPainter &painter, const LaidPiece &laid, double x, double column)
{
    const QRectF panel(x + laid.x - metrics::codePad, laid.y - metrics::codePad + 2, column - laid.x + metrics::codePad,
                       laid.height + 2 * metrics::codePad - 4);
    painter.setPen(QPen(m_theme.tokens().line, 1));
    painter.setBrush(m_theme.tokens().panel);
    painter.drawRoundedRect(panel.adjusted(0.5, 0.5, -0.5, -0.5), 8, 8);
}

void BlockPainter::paintPiece(QPainter &painter, const LaidPiece &laid, int index, const State &state, double x,
                              bool muted)
{
    const Tokens &tokens = m_theme.tokens();
    const QPointF at(x + laid.x, laid.y);
    if (!laid.piece.marker.isEmpty()) {
        painter.setFont(m_theme.ui(14));
        painter.setPen(tokens.muted);
        if (laid.piece.text.isRightToLeft())
            painter.drawText(QRectF(at.x() + laid.width + 6, at.y(), 38, metrics::line),
                             Qt::AlignLeft | Qt::AlignVCenter, laid.piece.marker);
        else
            painter.drawText(QRectF(at.x() - 44, at.y(), 38, metrics::line), Qt::AlignRight | Qt::AlignVCenter,
                             laid.piece.marker);
    }
    for (int level = 0; level < laid.piece.quote; ++level) {
        painter.setPen(Qt::NoPen);
        painter.setBrush(tokens.line);
        painter.drawRoundedRect(QRectF(x + level * metrics::quote, at.y(), 3, laid.height + 8), 1.5, 1.5);
    }
    paintCodeSpans(painter, laid, at);
    painter.setPen(muted || laid.piece.role == Role::HeadCell || laid.piece.quote > 0 ? tokens.muted : tokens.text);
    laid.layout->draw(&painter, at, selectionOf(state, index, static_cast<int>(laid.piece.text.size())), state.clip);
}

void BlockPainter::paintCursor(QPainter &painter, const QPointF &at)
{
    painter.setPen(Qt::NoPen);
    painter.setBrush(m_theme.tokens().accent);
    painter.drawRoundedRect(QRectF(at.x() + 6, at.y() - 9, 8, 18), 2, 2);
}

void BlockPainter::paintBody(QPainter &painter, const Block &block, const ViewMessage &message, const State &state)
{
    const Tokens &tokens = m_theme.tokens();
    const double x = textLeft(block, state.column);
    const bool wide = block.contentWidth > state.column;
    painter.save();
    if (wide)
        painter.setClipRect(QRectF(0, 0, state.column, state.height), Qt::IntersectClip);
    int row = -1;
    for (std::size_t k = 0; k < block.pieces.size(); ++k) {
        const LaidPiece &laid = block.pieces[k];
        if (laid.y > state.clip.bottom() + 1)
            break;
        if (laid.y + laid.height + 16 < state.clip.top())
            continue;
        if (laid.piece.role == Role::Rule) {
            painter.fillRect(QRectF(x, laid.y, state.column, 1), tokens.line);
            continue;
        }
        const bool cell = laid.piece.role == Role::Cell || laid.piece.role == Role::HeadCell;
        if (cell && laid.piece.row != row) {
            row = laid.piece.row;
            if (row > 0)
                painter.fillRect(QRectF(x, laid.y - metrics::cellPad, std::max(block.contentWidth, state.column), 1),
                                 tokens.line);
        }
        if (laid.piece.role == Role::Code)
            paintPanel(painter, laid, x, state.column);
        if (laid.layout)
            paintPiece(painter, laid, static_cast<int>(k), state, x, false);
    }
    painter.restore();
    for (const BlockTarget &target : targets(block, message, state.column, state.height))
        paintTarget(painter, target, state.pointer, m_theme.tokens().muted);
    if (block.open && message.role == ViewMessage::Role::Assistant && !block.pieces.empty()
        && block.pieces.back().layout) {
        paintCursorAfter(painter, block.pieces.back(), x);
    }
}

void BlockPainter::paintCursorAfter(QPainter &painter, const LaidPiece &last, double x)
{
    const int lines = last.layout->lineCount();
    if (lines == 0)
        return;
    const QTextLine line = last.layout->lineAt(lines - 1);
    paintCursor(painter, {x + last.x + line.x() + line.naturalTextWidth(), last.y + line.y() + line.height() / 2});
}

/// The line that folds the reasoning: a small triangle and how long it took.
void BlockPainter::paintThoughtHead(QPainter &painter, const Block &block, const ViewMessage &message,
                                    const State &state)
{
    const QVector<BlockTarget> found = targets(block, message, state.column, state.height);
    const BlockTarget &target = found.first();
    const bool hot = target.rect.contains(state.pointer);
    if (hot) {
        painter.setPen(Qt::NoPen);
        painter.setBrush(m_theme.lifted());
        painter.drawRoundedRect(target.rect, 5, 5);
    }
    const QColor color = hot ? m_theme.tokens().accent : m_theme.tokens().muted;
    const QPointF middle(target.rect.left() + 10, target.rect.center().y());
    const QPolygonF triangle = message.unfolded
        ? QPolygonF({middle + QPointF(-4, -2), middle + QPointF(4, -2), middle + QPointF(0, 3)})
        : QPolygonF({middle + QPointF(-2, -4), middle + QPointF(-2, 4), middle + QPointF(3, 0)});
    painter.setPen(Qt::NoPen);
    painter.setBrush(color);
    painter.drawPolygon(triangle);
    painter.setFont(m_theme.ui(12, QFont::Medium));
    painter.setPen(color);
    painter.drawText(target.rect.adjusted(20, 0, 0, 0), Qt::AlignLeft | Qt::AlignVCenter, target.label);
}

void BlockPainter::paintThought(QPainter &painter, const Block &block, const ViewMessage &message, const State &state)
{
    if (block.pieces.empty())
        return;
    const double end = block.last ? state.height - metrics::gap : state.height;
    painter.fillRect(QRectF(0, 0, 2, end), m_theme.tokens().line);
    paintPiece(painter, block.pieces.front(), 0, state, 0, true);
    if (block.last && isThinking(message))
        paintCursorAfter(painter, block.pieces.front(), 0);
}

void BlockPainter::paintToolCall(QPainter &painter, const Block &block, const ViewMessage &message, const State &state)
{
    const Tokens &tokens = m_theme.tokens();
    const QRectF frame = codeFrame(state.column, state.height);
    painter.setPen(QPen(tokens.line, 1));
    painter.setBrush(tokens.panel);
    painter.drawRoundedRect(frame, 8, 8);
    const QVector<BlockTarget> found = targets(block, message, state.column, state.height);
    const double right = found.isEmpty() ? frame.right() - codeLeft : found.first().rect.left() - 6;
    painter.setFont(m_theme.ui(11));
    painter.setPen(tokens.muted);
    painter.drawText(QRectF(frame.x(), frame.y() + 6, right - frame.x(), 20), Qt::AlignRight | Qt::AlignVCenter,
                     QCoreApplication::translate("ui::ChatView", "Tool call"));
    for (std::size_t k = 0; k < block.pieces.size(); ++k)
        paintPiece(painter, block.pieces[k], static_cast<int>(k), state, 0, false);
    for (const BlockTarget &target : found)
        paintTarget(painter, target, state.pointer, tokens.accent);
}

void BlockPainter::paintCodeLines(QPainter &painter, Block &block, const ViewMessage &message, const State &state,
                                  const QRectF &frame)
{
    const double top = frame.y() + metrics::codeHead - 1;
    const int last = block.code.count() - 1;
    const int from = std::max(0, static_cast<int>((state.clip.top() - top) / metrics::line) - 1);
    const int to = std::min(last, static_cast<int>((state.clip.bottom() - top) / metrics::line) + 1);
    painter.save();
    painter.setClipRect(frame.adjusted(1, 1, -1, -1), Qt::IntersectClip);
    for (int i = from; i <= to; ++i) {
        QTextLayout &layout = m_layout.codeLine(block, message, i);
        const QTextLine line = layout.lineAt(0);
        const QPointF at(frame.x() + codeLeft - block.scrollX,
                         top + i * metrics::line + (metrics::line - line.height()) / 2);
        painter.setPen(m_theme.tokens().text);
        layout.draw(&painter, at, selectionOf(state, i, static_cast<int>(layout.text().size())));
        if (block.open && i == last)
            paintCursor(painter, {at.x() + line.naturalTextWidth() - 3, at.y() + line.height() / 2});
    }
    painter.restore();
}

void BlockPainter::paintCode(QPainter &painter, Block &block, const ViewMessage &message, const State &state)
{
    const Tokens &tokens = m_theme.tokens();
    const QRectF frame = codeFrame(state.column, state.height);
    painter.setPen(QPen(tokens.line, 1));
    painter.setBrush(tokens.panel);
    painter.drawRoundedRect(frame, 8, 8);
    painter.setFont(m_theme.ui(11));
    painter.setPen(tokens.muted);
    const QFontMetricsF fm(painter.font());
    painter.drawText(QPointF(frame.x() + codeLeft, frame.y() + 20),
                     fm.elidedText(displayText(block.code.languageName(), true), Qt::ElideRight, state.column / 2));
    if (block.code.count() > 0)
        paintCodeLines(painter, block, message, state, frame);
    for (const BlockTarget &target : targets(block, message, state.column, state.height))
        paintTarget(painter, target, state.pointer, tokens.accent);
}

void BlockPainter::paintNotice(QPainter &painter, const Block &block, const ViewMessage &message, const State &state)
{
    const Tokens &tokens = m_theme.tokens();
    const auto severity = message.notice.severity;
    const QColor mark = severity == MessageNotice::Severity::Error ? tokens.bad
        : severity == MessageNotice::Severity::Warning             ? tokens.warn
                                                                   : tokens.accent;
    const QRectF frame(0.5, 0.5, state.column - 1, state.height - metrics::gap - 1);
    painter.setPen(QPen(tokens.line, 1));
    painter.setBrush(tokens.panel);
    painter.drawRoundedRect(frame, 8, 8);
    painter.setPen(Qt::NoPen);
    painter.setBrush(mark);
    painter.drawEllipse(QPointF(16, 21), 4, 4);
    if (!block.pieces.empty())
        paintPiece(painter, block.pieces.front(), 0, state, 0, false);
    for (const BlockTarget &target : targets(block, message, state.column, state.height))
        paintTarget(painter, target, state.pointer, tokens.accent);
}

void BlockPainter::paintTarget(QPainter &painter, const BlockTarget &target, const QPointF &pointer,
                               const QColor &quiet)
{
    const Tokens &tokens = m_theme.tokens();
    const bool hot = target.rect.contains(pointer);
    if (target.kind == BlockTarget::Kind::ScrollHandle) {
        painter.setPen(Qt::NoPen);
        painter.setBrush(hot ? tokens.muted : tokens.line);
        painter.drawRoundedRect(target.rect.adjusted(0, 3, 0, -1), 2, 2);
        return;
    }
    const QRectF text = target.rect.adjusted(6, 0, -6, 0);
    if (hot) {
        painter.setPen(Qt::NoPen);
        painter.setBrush(m_theme.lifted());
        painter.drawRoundedRect(target.rect, 5, 5);
    }
    painter.setFont(m_theme.ui(12, QFont::Medium));
    painter.setPen(hot ? tokens.accent : quiet);
    painter.drawText(text, Qt::AlignLeft | Qt::AlignVCenter, target.label);
    if (!target.key.isEmpty()) {
        painter.setPen(tokens.muted);
        painter.drawText(text, Qt::AlignRight | Qt::AlignVCenter, target.key);
    }
}

void BlockPainter::paintFooter(QPainter &painter, const MessageFooter &footer, double column, const QPointF &pointer,
                               bool active)
{
    const QVector<BlockTarget> targets = footerTargets(footer, column, 6);
    const double right = targets.isEmpty() ? column : targets.first().rect.left() - 12;
    painter.setFont(m_theme.ui(12));
    painter.setPen(m_theme.tokens().muted);
    painter.drawText(QRectF(0, 6, right, 20), Qt::AlignLeft | Qt::AlignVCenter,
                     QFontMetricsF(painter.font()).elidedText(footer.text, Qt::ElideRight, right));
    for (const BlockTarget &target : targets)
        paintTarget(painter, target, pointer,
                    active || !target.key.isEmpty() ? m_theme.tokens().accent : m_theme.tokens().muted);
}

QVector<BlockTarget> BlockPainter::footerTargets(const MessageFooter &footer, double column, double y) const
{
    QVector<BlockTarget> out;
    const QFontMetricsF fm(m_theme.ui(12, QFont::Medium));
    double right = column + 6;
    for (auto it = footer.actions.rbegin(); it != footer.actions.rend(); ++it) {
        const double key = it->key.isEmpty() ? 0 : fm.horizontalAdvance(it->key) + 6;
        const double width = std::ceil(fm.horizontalAdvance(it->label) + key) + 12;
        out.prepend({QRectF(right - width, y, width, 20), BlockTarget::Kind::Action, it->id, it->label, it->key, -1});
        right -= width + actionGap - 12;
    }
    return out;
}

QVector<BlockTarget> BlockPainter::targets(const Block &block, const ViewMessage &message, double column,
                                           double height) const
{
    if (block.kind == Block::Kind::Footer)
        return footerTargets(message.footer, column, 6);
    QVector<BlockTarget> out;
    const QFontMetricsF fm(m_theme.ui(12, QFont::Medium));
    if (block.kind == Block::Kind::Thought)
        return out;
    if (block.kind == Block::Kind::ThoughtHead) {
        const QString label = thoughtLabel(message);
        const double width = std::ceil(fm.horizontalAdvance(label)) + 28;
        out.append({QRectF(-6, 2, width, 22), BlockTarget::Kind::Fold, {}, label, {}, -1});
        return out;
    }
    if (block.kind == Block::Kind::Notice) {
        double x = 24;
        for (const MessageAction &action : message.notice.actions) {
            const double width = std::ceil(fm.horizontalAdvance(action.label)) + 12;
            out.append({QRectF(x, height - metrics::gap - 32, width, 24),
                        BlockTarget::Kind::Action,
                        action.id,
                        action.label,
                        {},
                        -1});
            x += width + 8;
        }
        return out;
    }
    const double copyWidth = std::ceil(fm.horizontalAdvance(copyLabel())) + 12;
    if (block.kind == Block::Kind::ToolCall) {
        const QRectF frame = codeFrame(column, height);
        if (!message.calls[block.call].arguments.isEmpty())
            out.append({QRectF(frame.right() - 8 - copyWidth, frame.y() + 6, copyWidth, 20),
                        BlockTarget::Kind::CopyCode,
                        {},
                        copyLabel(),
                        {},
                        -1});
        return out;
    }
    if (block.kind == Block::Kind::Code) {
        const QRectF frame = codeFrame(column, height);
        out.append({QRectF(frame.right() - 8 - copyWidth, frame.y() + 6, copyWidth, 20),
                    BlockTarget::Kind::CopyCode,
                    {},
                    copyLabel(),
                    {},
                    -1});
        const double room = frame.width() - 2 * codeLeft;
        if (block.contentWidth > room) {
            const double handle = std::max(32.0, room * room / block.contentWidth);
            const double x = codeLeft + (room - handle) * block.scrollX / (block.contentWidth - room);
            out.append({QRectF(x, frame.bottom() - 9, handle, 8), BlockTarget::Kind::ScrollHandle, {}, {}, {}, -1});
        }
        return out;
    }
    for (std::size_t k = 0; k < block.pieces.size(); ++k)
        if (const LaidPiece &laid = block.pieces[k]; laid.piece.role == Role::Code)
            out.append({QRectF(column - copyWidth - 6, laid.y - metrics::codePad + 5, copyWidth, 20),
                        BlockTarget::Kind::CopyCode,
                        {},
                        copyLabel(),
                        {},
                        static_cast<int>(k)});
    if (block.kind == Block::Kind::Body && block.contentWidth > column) {
        const double handle = std::max(32.0, column * column / block.contentWidth);
        const double x = (column - handle) * block.scrollX / (block.contentWidth - column);
        out.append({QRectF(x, height - 9, handle, 8), BlockTarget::Kind::ScrollHandle, {}, {}, {}, -1});
    }
    return out;
}

} // namespace ui
