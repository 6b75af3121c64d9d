// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/request.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer.h"

#include <string>
#include <vector>

namespace engine {

/// Turns a request's prompt, ids or messages into token ids. Thread: any; borrows its arguments.
class PromptEncoder {
public:
    /// `chatTemplate` may be null. \pre both outlive this
    PromptEncoder(const Tokenizer &tokenizer, const ChatTemplate *chatTemplate, int vocabSize, int maxModelLen);

    /// `prompt` is encoded as the model does; messages go through the template, whose text holds all special tokens
    /// already, so none is added. \throws Error Refused naming what is wrong with the request
    [[nodiscard]] std::vector<int> encode(const Request &request) const;

private:
    [[nodiscard]] std::string render(const Request &request) const;
    [[nodiscard]] std::vector<int> encodeText(const std::string &text, const EncodeOptions &options) const;
    void checkIds(const std::vector<int> &ids) const;

    const Tokenizer &m_tokenizer;
    const ChatTemplate *m_template;
    int m_vocabSize;
    int m_maxModelLen;
    std::size_t m_longestToken = 1; ///< bytes
};

/// Empty when the values are allowed, else one sentence naming key, value and range.
[[nodiscard]] std::string checkSampling(const SamplingParams &sampling);

} // namespace engine
