// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/serve/answer.h"
#include "app/serve/json.h"

#include <vector>

namespace serve {

/// "stop", "length" or "tool_calls".
[[nodiscard]] const char *finishWord(engine::FinishReason reason, bool calledTools);

/// Sums over the choices. Prompts are counted once for all their choices, as OpenAI does.
class UsageSum {
public:
    UsageSum(std::size_t prompts, int n);
    void add(std::size_t choice, const engine::Usage &usage);
    [[nodiscard]] Json json() const;

private:
    int m_n;
    std::vector<engine::Usage> m_prompts; ///< by prompt; the cached tokens are those of its first choice
    int m_completionTokens = 0;
};

/// {"content": [{token, logprob, bytes, top_logprobs}]} of a chat.
[[nodiscard]] Json chatLogprobs(const std::vector<engine::SampledToken> &tokens, const engine::TextModel *text);
/// {tokens, token_logprobs, top_logprobs, text_offset} of a plain completion; `offset` is where the first token
/// begins in the text, in bytes, and moves behind the last.
[[nodiscard]] Json completionLogprobs(const std::vector<engine::SampledToken> &tokens, const engine::TextModel *text,
                                      std::size_t &offset);

/// A call's id, unique within its answer and the next ones.
[[nodiscard]] std::string callId(const std::string &answerId, std::size_t choice, int index);

} // namespace serve
