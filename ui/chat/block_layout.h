// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/chat/chat_document.h"

#include <QFont>

namespace ui {

class Theme;

/// Breaks the text of blocks into lines. Only pieces that changed are laid out again.
/// Thread: the UI.
class BlockLayout {
public:
    explicit BlockLayout(const Theme &theme)
        : m_theme(theme)
    {
    }

    /// Lays the block out for a column of `width` and returns its height, a whole number.
    double layOut(Block &block, ChatDocument::Message &message, double width);
    /// One line of a code block, kept in block.lines.
    QTextLayout &codeLine(Block &block, const ViewMessage &message, int line);
    [[nodiscard]] QFont pieceFont(Piece::Role role) const;
    [[nodiscard]] QFont codeFont() const;

private:
    double layOutPlain(Block &block, const ViewMessage &message, double width);
    double layOutBody(Block &block, ChatDocument::Message &message, double width);
    double layOutThought(Block &block, const ViewMessage &message, double width);
    double layOutToolCall(Block &block, const ViewMessage &message, double width);
    double layOutNotice(Block &block, const ViewMessage &message, double width);
    double placeTable(Block &block, std::size_t from, std::size_t to, ChatDocument::Message &message, double width,
                      double y);
    void layOutPiece(LaidPiece &laid, double width) const;
    [[nodiscard]] QVector<double> columnWidths(const Block &block, std::size_t from, std::size_t to,
                                               double width) const;
    [[nodiscard]] QVector<QTextLayout::FormatRange> formats(const Piece &piece) const;
    [[nodiscard]] double lineHeight(Piece::Role role) const;

    const Theme &m_theme;
};

} // namespace ui
