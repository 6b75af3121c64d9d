// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/chat/chat_document.h"

#include <QPair>
#include <QStringList>

namespace ui {

/// What is selected in a conversation, from `anchor` to `cursor` in either order.
struct TextSelection {
    TextPosition anchor;
    TextPosition cursor;

    [[nodiscard]] bool isEmpty() const { return anchor.block < 0 || anchor == cursor; }
    [[nodiscard]] TextPosition begin() const { return std::min(anchor, cursor); }
    [[nodiscard]] TextPosition end() const { return std::max(anchor, cursor); }
    /// Selected characters [first, second) of a piece with `length` characters; empty when none are.
    [[nodiscard]] QPair<int, int> within(int block, int piece, int length) const;
    /// The selection as text: blocks that are selected whole as their source Markdown, others as they are shown.
    [[nodiscard]] QString text(const ChatDocument &document) const;
};

/// The shown text of every piece of a block, or of every line of a code block.
[[nodiscard]] QStringList shownTexts(const Block &block, const ChatDocument::Message &message);

} // namespace ui
