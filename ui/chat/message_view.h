// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/chat/chat_blocks.h"
#include "ui/chat/chat_records.h"

namespace ui {

/// What a message's line and notice depend on, beside the message.
struct MessageSurroundings {
    int variant = 0; ///< 0-based
    int variants = 1;
    bool notSaved = false; ///< not on disk, and the store cannot write
    bool mayAsk = false;   ///< a model is loaded and the chat does not run
    int maxModelLen = 0;   ///< of the loaded model, 0 = none
    int contextLength = 0; ///< that the loaded model was made for
};

/// Names of MessageAction::id.
namespace action {
inline constexpr auto copy = u"copy";
inline constexpr auto edit = u"edit";
inline constexpr auto regenerate = u"regenerate";
inline constexpr auto stop = u"stop";
inline constexpr auto why = u"why";
inline constexpr auto previousVariant = u"variant-previous";
inline constexpr auto nextVariant = u"variant-next";
inline constexpr auto continueInNewChat = u"continue-new";
inline constexpr auto shorten = u"shorten";
inline constexpr auto reloadLonger = u"reload-longer";
} // namespace action

/// The quiet line under a message: its figures and what can be done.
[[nodiscard]] MessageFooter footerOf(const MessageRecord &message, const MessageSurroundings &around);
/// What must be said about a message, with what can be done about it; empty text when nothing.
[[nodiscard]] MessageNotice noticeOf(const MessageRecord &message, const MessageSurroundings &around);
/// A message as the view shows it.
[[nodiscard]] ViewMessage viewMessageOf(const MessageRecord &message, const MessageSurroundings &around);
/// The context that a reload could give: double, at most what the model was made for; 0 when there is no more.
[[nodiscard]] int longerContext(const MessageSurroundings &around);

} // namespace ui
