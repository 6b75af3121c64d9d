// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/output_formats.h"

namespace engine {
namespace {

/// `<think>...</think>` and `<tool_call>{"name": ..., "arguments": ...}</tool_call>`.
/// Source: the chat templates of Qwen 2.5, Qwen 3 and Hermes.
class TaggedParser final : public OutputParser {
public:
    TaggedParser(const Tokenizer &tokenizer, ThinkMarkers think, int callOpen, int callClose)
        : m_tokenizer(tokenizer)
        , m_fields(think)
        , m_callOpen(callOpen)
        , m_callClose(callClose)
    {
    }

    void begin(std::span<const int> prompt) override
    {
        m_fields.begin(m_fields.markers().leavesOpen(prompt, m_tokenizer));
    }
    bool isMarker(int token) const override
    {
        return token >= 0 && (token == m_callOpen || token == m_callClose || m_fields.isMarker(token));
    }
    void marker(int token, OutputDelta &out) override
    {
        endCall(out);
        m_inCall = token == m_callOpen;
        if (token == m_callClose)
            m_fields.resumeContent();
        else if (m_fields.isMarker(token))
            m_fields.marker(token);
    }
    void text(std::string_view text, OutputDelta &out) override
    {
        if (m_inCall)
            m_calls.append(text, out.toolCalls);
        else
            m_fields.text(text, out);
    }
    void finish(OutputDelta &out) override
    {
        endCall(out);
        m_fields.finish(out);
    }

private:
    void endCall(OutputDelta &out)
    {
        if (m_inCall)
            out.content += m_calls.finish();
        m_inCall = false;
    }

    const Tokenizer &m_tokenizer;
    ThinkingFields m_fields;
    int m_callOpen;
    int m_callClose;
    CallScanner m_calls;
    bool m_inCall = false;
};

} // namespace

std::unique_ptr<OutputParser> makeTaggedParser(const Tokenizer &tokenizer)
{
    const ThinkMarkers think{tokenizer.find("<think>").value_or(-1), tokenizer.find("</think>").value_or(-1)};
    const int open = tokenizer.find("<tool_call>").value_or(-1);
    const int close = tokenizer.find("</tool_call>").value_or(-1);
    if ((think.open < 0 || think.close < 0) && (open < 0 || close < 0))
        return nullptr;
    return std::make_unique<TaggedParser>(tokenizer, think, open, close);
}

} // namespace engine
