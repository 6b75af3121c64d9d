// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/cli/output.h"
#include "app/cli/session.h"

namespace cli {

/// One finished request as `generate` and `chat` print it.
[[nodiscard]] Json resultJson(const RequestResult &result);

/// The same with the fields of an answer in a conversation: reasoning and tool_calls.
[[nodiscard]] Json answerJson(const RequestResult &result);
[[nodiscard]] Json toolCallsJson(const std::vector<engine::ToolCall> &calls);

/// Throws what ended the request when it failed.
void throwIfFailed(const RequestResult &result);

} // namespace cli
