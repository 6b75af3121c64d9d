// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/output_formats.h"

#include <algorithm>
#include <utility>

namespace engine {
namespace {

struct HarmonyMarkers {
    int start, end, message, channel, constrain, returned, call;
};

/// Messages on channels: `<|start|>role<|channel|>name<|message|>body<|end|>`. The channel `analysis` is reasoning;
/// a message with a recipient (`to=functions.name`) is a call; everything else is content.
/// Source: OpenAI's description of the harmony response format.
class HarmonyParser final : public OutputParser {
public:
    HarmonyParser(const Tokenizer &tokenizer, HarmonyMarkers markers)
        : m_tokenizer(tokenizer)
        , m_markers(markers)
    {
    }

    void begin(std::span<const int> prompt) override;
    bool isMarker(int token) const override
    {
        return token == m_markers.start || token == m_markers.end || token == m_markers.message
            || token == m_markers.channel || token == m_markers.constrain || token == m_markers.returned
            || token == m_markers.call;
    }
    void marker(int token, OutputDelta &out) override;
    void text(std::string_view text, OutputDelta &out) override;
    void finish(OutputDelta &out) override;

private:
    enum class Field { Header, Content, Reasoning, Call };

    void openMessage(OutputDelta &out);
    void endMessage(OutputDelta &out);

    const Tokenizer &m_tokenizer;
    HarmonyMarkers m_markers;
    Field m_field = Field::Header;
    std::string m_header; ///< role, then channel, then constraint, each after a line end
    TrimmedText m_content;
    TrimmedText m_reasoning;
    int m_index = 0;
    bool m_hasArguments = false;
    bool m_hasRole = false; ///< the header began with `<|start|>` in the answer itself
};

/// A prompt ends behind `<|start|>assistant`, behind a channel, or inside a message.
void HarmonyParser::begin(std::span<const int> prompt)
{
    const auto last = std::find(prompt.rbegin(), prompt.rend(), m_markers.start);
    if (last == prompt.rend()) {
        m_field = Field::Content;
        m_content.keepStart();
        return;
    }
    OutputDelta shown; // what the prompt holds already
    for (auto token = last.base(); token != prompt.end(); ++token) {
        if (isMarker(*token))
            marker(*token, shown);
        else if (*token < m_tokenizer.vocabSize())
            text(m_tokenizer.bytes(*token, false), shown);
    }
    if (m_field == Field::Header && m_header.find('\n') == std::string::npos) { // only the role stands there
        m_header.clear();
        m_hasRole = false;
    }
}

void HarmonyParser::openMessage(OutputDelta &out)
{
    const std::size_t recipient = m_header.find("to=");
    if (recipient != std::string::npos) {
        std::string name = m_header.substr(recipient + 3);
        name.resize(std::min(name.find_first_of(" \n\t"), name.size()));
        if (name.starts_with("functions."))
            name.erase(0, 10);
        out.toolCalls.push_back({m_index, std::move(name), {}});
        m_field = Field::Call;
        m_hasArguments = false;
    } else if (m_header.find("\nanalysis") != std::string::npos) {
        m_field = Field::Reasoning;
        m_reasoning.restart("\n\n");
    } else {
        m_field = Field::Content;
        m_content.restart("\n\n");
    }
    m_header.clear();
}

void HarmonyParser::endMessage(OutputDelta &out)
{
    if (m_field == Field::Call) {
        if (!m_hasArguments)
            out.toolCalls.push_back({m_index, {}, "{}"});
        ++m_index;
    }
    m_field = Field::Header;
    m_header.clear();
}

void HarmonyParser::marker(int token, OutputDelta &out)
{
    if (token == m_markers.message) {
        if (m_field == Field::Header)
            openMessage(out);
    } else if (token == m_markers.channel || token == m_markers.constrain) {
        if (m_field != Field::Header)
            endMessage(out);
        m_header += '\n';
    } else {
        endMessage(out);
        m_hasRole = token == m_markers.start;
    }
}

void HarmonyParser::text(std::string_view text, OutputDelta &out)
{
    switch (m_field) {
    case Field::Header:
        m_header += text;
        break;
    case Field::Content:
        out.content += m_content.append(text);
        break;
    case Field::Reasoning:
        out.reasoning += m_reasoning.append(text);
        break;
    case Field::Call:
        m_hasArguments = true;
        out.toolCalls.push_back({m_index, {}, std::string(text)});
        break;
    }
}

void HarmonyParser::finish(OutputDelta &out)
{
    // Without a channel it never was a header, but words of a model that does not keep to the format.
    if (m_field == Field::Header && !m_hasRole && m_header.find('\n') == std::string::npos)
        out.content += m_content.append(m_header);
    else if (m_field == Field::Content)
        out.content += m_content.flush();
    endMessage(out);
}

} // namespace

std::unique_ptr<OutputParser> makeHarmonyParser(const Tokenizer &tokenizer)
{
    const auto id = [&tokenizer](const char *piece) { return tokenizer.find(piece).value_or(-1); };
    const HarmonyMarkers markers{id("<|start|>"),     id("<|end|>"),    id("<|message|>"), id("<|channel|>"),
                                 id("<|constrain|>"), id("<|return|>"), id("<|call|>")};
    if (markers.start < 0 || markers.message < 0 || markers.channel < 0 || markers.returned < 0)
        return nullptr;
    return std::make_unique<HarmonyParser>(tokenizer, markers);
}

} // namespace engine
