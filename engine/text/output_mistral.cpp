// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/output_formats.h"

#include <optional>
#include <utility>

namespace engine {
namespace {

struct MistralMarkers {
    int calls, arguments, callId;
};

/// `[TOOL_CALLS]` before a JSON list of calls (until tokenizer v7) or before each call as `name[ARGS]{...}`, with
/// `[CALL_ID]` between in some versions; `[THINK]...[/THINK]` where the vocabulary has it.
/// Source: mistral-common's instruct tokenizers v3 to v13.
class MistralParser final : public OutputParser {
public:
    MistralParser(const Tokenizer &tokenizer, ThinkMarkers think, MistralMarkers markers)
        : m_tokenizer(tokenizer)
        , m_fields(think)
        , m_markers(markers)
    {
    }

    void begin(std::span<const int> prompt) override
    {
        m_fields.begin(m_fields.markers().leavesOpen(prompt, m_tokenizer));
    }
    bool isMarker(int token) const override
    {
        return token >= 0
            && (token == m_markers.calls || token == m_markers.arguments || token == m_markers.callId
                || m_fields.isMarker(token));
    }
    void marker(int token, OutputDelta &out) override;
    void text(std::string_view text, OutputDelta &out) override;
    void finish(OutputDelta &out) override
    {
        endCall(out);
        m_fields.finish(out);
    }

private:
    enum class Part { Fields, Undecided, List, Name, CallId, Arguments };

    void start(OutputDelta &out);
    void endCall(OutputDelta &out);

    const Tokenizer &m_tokenizer;
    ThinkingFields m_fields;
    MistralMarkers m_markers;
    Part m_part = Part::Fields;
    std::string m_name;
    CallScanner m_calls;
    JsonObjectFilter m_arguments;
    int m_index = 0;
};

void MistralParser::marker(int token, OutputDelta &out)
{
    if (token == m_markers.arguments || token == m_markers.callId) {
        if (m_part == Part::Name || m_part == Part::CallId)
            m_part = token == m_markers.callId ? Part::CallId : (start(out), Part::Arguments);
        return;
    }
    endCall(out);
    if (token == m_markers.calls)
        m_part = Part::Undecided;
    else
        m_fields.marker(token);
}

void MistralParser::start(OutputDelta &out)
{
    m_arguments = {};
    while (!m_name.empty() && (m_name.back() == ' ' || m_name.back() == '\n'))
        m_name.pop_back();
    out.toolCalls.push_back({m_index, std::exchange(m_name, {}), {}});
}

void MistralParser::text(std::string_view text, OutputDelta &out)
{
    if (m_part == Part::Undecided) {
        text.remove_prefix(std::min(text.find_first_not_of(" \r\n\t"), text.size()));
        if (text.empty())
            return;
        m_part = text.front() == '[' || text.front() == '{' ? Part::List : Part::Name;
        if (m_part == Part::List)
            m_calls = CallScanner(m_index);
    }
    if (m_part == Part::Name) {
        const std::size_t brace = text.find('{');
        m_name += text.substr(0, brace);
        if (brace == std::string_view::npos)
            return;
        start(out);
        m_part = Part::Arguments;
        text.remove_prefix(brace);
    }
    if (m_part == Part::Fields) {
        m_fields.text(text, out);
    } else if (m_part == Part::List) {
        m_calls.append(text, out.toolCalls);
    } else if (m_part == Part::Arguments) {
        if (std::string piece = m_arguments.append(text); !piece.empty())
            out.toolCalls.push_back({m_index, {}, std::move(piece)});
    }
}

void MistralParser::endCall(OutputDelta &out)
{
    if (m_part == Part::List) {
        out.content += m_calls.finish();
        m_index = m_calls.nextIndex();
    } else if (m_part == Part::Name || m_part == Part::CallId) { // no arguments follow: the model's words stay text
        out.content += std::exchange(m_name, {});
    } else if (m_part == Part::Arguments) {
        if (!m_arguments.started())
            out.toolCalls.push_back({m_index, {}, "{}"});
        ++m_index;
    }
    m_part = Part::Fields;
}

} // namespace

std::unique_ptr<OutputParser> makeMistralParser(const Tokenizer &tokenizer)
{
    const auto id = [&tokenizer](const char *piece) { return tokenizer.find(piece).value_or(-1); };
    const MistralMarkers markers{id("[TOOL_CALLS]"), id("[ARGS]"), id("[CALL_ID]")};
    if (markers.calls < 0)
        return nullptr;
    return std::make_unique<MistralParser>(tokenizer, ThinkMarkers{id("[THINK]"), id("[/THINK]")}, markers);
}

} // namespace engine
