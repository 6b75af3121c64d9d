// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/output.h"
#include "engine/text/tokenizer.h"

#include <memory>
#include <span>
#include <string_view>

namespace engine {

/// Sorts an answer into content, reasoning and tool calls while it streams. Parts are told apart by the ids of the
/// family's marker tokens, so text that merely looks like a marker stays text. Thread: one.
class OutputParser {
public:
    virtual ~OutputParser() = default;

    /// Goes to where the prompt leaves off: templates may open or close the reasoning themselves.
    virtual void begin(std::span<const int> prompt) = 0;
    /// Whether the token is one of the family's markers, which show nowhere.
    [[nodiscard]] virtual bool isMarker(int token) const = 0;
    /// \pre isMarker(token); all text before it was given to text()
    virtual void marker(int token, OutputDelta &out) = 0;
    virtual void text(std::string_view text, OutputDelta &out) = 0;
    /// The answer is over: hands on what was held back. A call cut in the middle keeps what it has.
    virtual void finish(OutputDelta &out) = 0;
};

/// The parser for what the vocabulary's markers say: gpt-oss channels; DeepSeek, Mistral and Llama 3 tool calls;
/// `<tool_call>` (Qwen 2.5, Qwen 3 and Hermes) with `<think>` where there is one. Null where there are no markers.
/// `offersTools`: the request named tools, so Llama 3 may answer with a bare JSON object. \pre the tokenizer outlives
/// the parser
[[nodiscard]] std::unique_ptr<OutputParser> makeOutputParser(const Tokenizer &tokenizer, bool offersTools);

} // namespace engine
