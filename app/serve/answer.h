// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/serve/completion_request.h"
#include "engine/api/events.h"
#include "engine/api/text.h"

#include <cstdint>
#include <memory>
#include <string>

namespace serve {

/// Turns the events of a request's choices into what goes to the client, piece by piece or as a whole.
/// Every call returns bytes of the body to send now, which may be none. Thread: one at a time.
class Answer {
public:
    virtual ~Answer() = default;
    /// Of a choice's prompt, before everything else of the choice.
    virtual void accepted(std::size_t /*choice*/, int /*promptTokens*/) { }
    [[nodiscard]] virtual std::string begin() = 0;
    [[nodiscard]] virtual std::string tokens(std::size_t choice, const engine::TokenEvent &event) = 0;
    /// `reason` is neither Cancelled nor Failed.
    [[nodiscard]] virtual std::string finished(std::size_t choice, const engine::RequestFinished &event) = 0;
    [[nodiscard]] virtual std::string end() = 0;
    [[nodiscard]] virtual std::size_t heldBytes() const { return 0; } ///< kept for end()
};

/// What names an answer.
struct AnswerInfo {
    std::string id; ///< chatcmpl-..., cmpl-...
    std::int64_t created = 0;
    std::string model;
    const engine::TextModel *text = nullptr; ///< for the bytes of tokens in logprobs, and prompts; may be null
};

[[nodiscard]] std::unique_ptr<Answer> makeAnswer(const CompletionRequest &request, AnswerInfo info);

} // namespace serve
