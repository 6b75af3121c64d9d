// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/serve/json.h"
#include "engine/api/events.h"
#include "engine/api/request.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace serve {

/// A request for answers as the engine takes it, and how the client wants them back.
struct CompletionRequest {
    bool chat = false;
    /// One for each prompt; every one is answered `n` times. Choice i of them all has index prompt * n + i.
    std::vector<engine::Request> prompts;
    int n = 1;
    bool stream = false;
    bool includeUsage = false;
    bool continuousUsage = false; ///< with includeUsage: counts so far in every event of a stream
    bool echo = false;            ///< the text of an answer begins with its prompt
    /// The answer must be a call and is nothing but that: JSON that is the arguments of this tool, or with an empty
    /// name an object {name, arguments}.
    std::optional<std::string> forcedTool;

    [[nodiscard]] std::size_t choices() const { return prompts.size() * static_cast<std::size_t>(n); }
};

/// \throws ApiError 400 naming the field; a field that is known but cannot be honoured is refused by name
[[nodiscard]] CompletionRequest readChat(const Json &body, const engine::ModelInfo &model);
[[nodiscard]] CompletionRequest readCompletion(const Json &body, const engine::ModelInfo &model);

/// The `messages` of a request: text or text parts, roles that chat templates know. \throws ApiError 400
[[nodiscard]] std::vector<engine::ChatMessage> readMessages(const Json &body);

} // namespace serve
