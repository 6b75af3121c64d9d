// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/output_formats.h"

#include <utility>

namespace engine {
namespace {

struct DeepSeekMarkers {
    int callsBegin, callsEnd, callBegin, callEnd, separator;
};

/// Calls between tokens of their own: `function SEP name, line end, fenced JSON` (V3, R1) or `name SEP JSON` (V3.1).
/// Source: the chat templates of DeepSeek V3, R1 and V3.1.
class DeepSeekParser final : public OutputParser {
public:
    DeepSeekParser(const Tokenizer &tokenizer, ThinkMarkers think, DeepSeekMarkers markers)
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
        return token == m_markers.callsBegin || token == m_markers.callsEnd || token == m_markers.callBegin
            || token == m_markers.callEnd || token == m_markers.separator || m_fields.isMarker(token);
    }
    void marker(int token, OutputDelta &out) override;
    void text(std::string_view text, OutputDelta &out) override;
    void finish(OutputDelta &out) override
    {
        endCall(out);
        m_fields.finish(out);
    }

private:
    enum class Part { Fields, Between, Header, Name, Arguments };

    void start(std::string_view name, OutputDelta &out);
    void endCall(OutputDelta &out);

    const Tokenizer &m_tokenizer;
    ThinkingFields m_fields;
    DeepSeekMarkers m_markers;
    Part m_part = Part::Fields;
    std::string m_header;
    std::string m_name;
    JsonObjectFilter m_arguments;
    int m_index = 0;
};

void DeepSeekParser::marker(int token, OutputDelta &out)
{
    if (token == m_markers.separator) {
        m_part = m_part == Part::Header ? Part::Name : m_part;
        return;
    }
    endCall(out);
    if (token == m_markers.callBegin) {
        m_part = Part::Header;
    } else if (token == m_markers.callsBegin || token == m_markers.callEnd) {
        m_part = Part::Between;
    } else {
        m_part = Part::Fields;
        if (m_fields.isMarker(token))
            m_fields.marker(token);
        else
            m_fields.resumeContent();
    }
}

void DeepSeekParser::start(std::string_view name, OutputDelta &out)
{
    const std::size_t first = name.find_first_not_of(" \r\n\t");
    const std::size_t last = name.find_last_not_of(" \r\n\t");
    m_part = Part::Arguments;
    m_arguments = {};
    out.toolCalls.push_back(
        {m_index,
         first == std::string_view::npos ? std::string() : std::string(name.substr(first, last - first + 1)),
         {}});
}

void DeepSeekParser::text(std::string_view text, OutputDelta &out)
{
    if (m_part == Part::Fields)
        return m_fields.text(text, out);
    if (m_part == Part::Header)
        m_header += text;
    if (m_part == Part::Name) {
        m_name += text;
        const std::size_t first = m_name.find_first_not_of(" \r\n\t");
        const std::size_t lineEnd = m_name.find('\n', first);
        if (first == std::string::npos)
            return;
        std::string rest;
        if (m_name[first] == '{') { // V3.1: the name stood before the separator
            start(m_header, out);
            rest = m_name;
        } else if (lineEnd != std::string::npos) {
            start(std::string_view(m_name).substr(0, lineEnd), out);
            rest = m_name.substr(lineEnd);
        } else {
            return;
        }
        out.toolCalls.back().arguments += m_arguments.append(rest);
        return;
    }
    if (m_part == Part::Arguments) {
        if (std::string piece = m_arguments.append(text); !piece.empty())
            out.toolCalls.push_back({m_index, {}, std::move(piece)});
    }
}

void DeepSeekParser::endCall(OutputDelta &out)
{
    if (m_part == Part::Name) // nothing but a name
        start(m_name.empty() ? m_header : m_name, out);
    else if (m_part == Part::Header)
        out.content += m_header;
    if (m_part == Part::Arguments) {
        if (!m_arguments.started())
            out.toolCalls.push_back({m_index, {}, "{}"});
        ++m_index;
    }
    m_header.clear();
    m_name.clear();
    m_part = Part::Between;
}

} // namespace

std::unique_ptr<OutputParser> makeDeepSeekParser(const Tokenizer &tokenizer)
{
    const auto id = [&tokenizer](const char *piece) { return tokenizer.find(piece).value_or(-1); };
    const DeepSeekMarkers markers{id("<｜tool▁calls▁begin｜>"), id("<｜tool▁calls▁end｜>"), id("<｜tool▁call▁begin｜>"),
                                  id("<｜tool▁call▁end｜>"), id("<｜tool▁sep｜>")};
    if (markers.callsBegin < 0 || markers.callBegin < 0 || markers.callEnd < 0 || markers.separator < 0)
        return nullptr;
    return std::make_unique<DeepSeekParser>(tokenizer, ThinkMarkers{id("<think>"), id("</think>")}, markers);
}

} // namespace engine
