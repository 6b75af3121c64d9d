// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/chat/block_layout.h"
#include "ui/chat/text_selection.h"

#include <QRectF>

class QPainter;

namespace ui {

/// Something in a block that reacts to the mouse or a screen reader, in the block's coordinates.
struct BlockTarget {
    enum class Kind { Action, CopyCode, Fold, ScrollHandle };
    QRectF rect;
    Kind kind = Kind::Action;
    QString id;    ///< of the action
    QString label; ///< as shown
    QString key;
    int piece = -1; ///< CopyCode inside a list or quote
};

/// Paints blocks and knows where their targets are. Colours are read when painting.
class BlockPainter {
public:
    BlockPainter(const Theme &theme, BlockLayout &layout)
        : m_theme(theme)
        , m_layout(layout)
    {
    }

    /// How a block is painted.
    struct State {
        double column = 0;       ///< width
        double height = 0;       ///< of the block, from the height index
        QRectF clip;             ///< in the painter's coordinates
        bool active = false;     ///< the pointer or the keyboard is on its message
        QPointF pointer{-1, -1}; ///< in the block's coordinates
        const TextSelection *selection = nullptr;
        int index = 0; ///< of the block
    };

    /// \pre the painter's origin is the column's left edge at the block's top
    void paint(QPainter &painter, Block &block, const ViewMessage &message, const State &state);
    /// The line under a message that still grows: its footer with the pointer's state.
    void paintFooter(QPainter &painter, const MessageFooter &footer, double column, const QPointF &pointer,
                     bool active);

    [[nodiscard]] QVector<BlockTarget> targets(const Block &block, const ViewMessage &message, double column,
                                               double height) const;
    [[nodiscard]] QVector<BlockTarget> footerTargets(const MessageFooter &footer, double column, double y) const;
    /// Left edge of a block's text, from the column's left edge.
    [[nodiscard]] static double textLeft(const Block &block, double column);

private:
    void paintBody(QPainter &painter, const Block &block, const ViewMessage &message, const State &state);
    void paintPiece(QPainter &painter, const LaidPiece &laid, int index, const State &state, double x, bool muted);
    void paintCodeSpans(QPainter &painter, const LaidPiece &laid, const QPointF &at);
    void paintPanel(QPainter &painter, const LaidPiece &laid, double x, double column);
    void paintBubble(QPainter &painter, const Block &block, const State &state);
    void paintCode(QPainter &painter, Block &block, const ViewMessage &message, const State &state);
    void paintCodeLines(QPainter &painter, Block &block, const ViewMessage &message, const State &state,
                        const QRectF &frame);
    void paintThoughtHead(QPainter &painter, const Block &block, const ViewMessage &message, const State &state);
    void paintThought(QPainter &painter, const Block &block, const ViewMessage &message, const State &state);
    void paintToolCall(QPainter &painter, const Block &block, const ViewMessage &message, const State &state);
    void paintNotice(QPainter &painter, const Block &block, const ViewMessage &message, const State &state);
    void paintTarget(QPainter &painter, const BlockTarget &target, const QPointF &pointer, const QColor &quiet);
    void paintCursorAfter(QPainter &painter, const LaidPiece &last, double x);
    void paintCursor(QPainter &painter, const QPointF &at);
    [[nodiscard]] QVector<QTextLayout::FormatRange> selectionOf(const State &state, int piece, int length) const;

    const Theme &m_theme;
    BlockLayout &m_layout;
};

constexpr double codeLeft = 14; ///< of the text of code in its frame
/// The frame of a code block, in the block's coordinates.
[[nodiscard]] QRectF codeFrame(double column, double height);

} // namespace ui
