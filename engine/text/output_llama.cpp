// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/core/json.h"
#include "engine/text/output_formats.h"

#include <utility>

namespace engine {
namespace {

/// Llama 3.1 and later: `<|python_tag|>` before JSON calls or before code for the built-in interpreter; with tools
/// offered, an answer that is a JSON object with a name is a call without any marker.
/// Source: Meta's prompt format of Llama 3.1 and 3.2.
class LlamaParser final : public OutputParser {
public:
    LlamaParser(int pythonTag, bool offersTools)
        : m_pythonTag(pythonTag)
        , m_part(offersTools ? Part::Undecided : Part::Content)
    {
    }

    void begin(std::span<const int>) override { }
    bool isMarker(int token) const override { return token >= 0 && token == m_pythonTag; }
    void marker(int, OutputDelta &out) override
    {
        finish(out);
        m_part = Part::Tagged;
    }
    void text(std::string_view text, OutputDelta &out) override;
    void finish(OutputDelta &out) override;

private:
    enum class Part { Undecided, Tagged, Content, Calls, Code };

    int m_pythonTag;
    Part m_part;
    std::string m_held; ///< white space before the first sign
    CallScanner m_calls;
    std::string m_code;
    int m_index = 0;
};

void LlamaParser::text(std::string_view text, OutputDelta &out)
{
    if (m_part == Part::Undecided || m_part == Part::Tagged) {
        m_held += text;
        const std::size_t first = m_held.find_first_not_of(" \r\n\t");
        if (first == std::string::npos)
            return;
        const bool json = m_held[first] == '{' || (m_part == Part::Tagged && m_held[first] == '[');
        m_part = json ? Part::Calls : m_part == Part::Tagged ? Part::Code : Part::Content;
        m_calls = CallScanner(m_index);
        const std::string held = std::exchange(m_held, {});
        return this->text(held, out);
    }
    if (m_part == Part::Content)
        out.content += text;
    else if (m_part == Part::Calls)
        m_calls.append(text, out.toolCalls);
    else
        m_code += text;
}

void LlamaParser::finish(OutputDelta &out)
{
    if (m_part == Part::Calls) {
        out.content += m_calls.finish();
        m_index = m_calls.nextIndex();
    } else if (m_part == Part::Code) {
        out.toolCalls.push_back({m_index++, "python", Json{{"code", std::exchange(m_code, {})}}.dump()});
    } else {
        out.content += std::exchange(m_held, {});
    }
    m_part = Part::Content;
}

} // namespace

std::unique_ptr<OutputParser> makeLlamaParser(const Tokenizer &tokenizer, bool offersTools)
{
    const std::optional<int> tag = tokenizer.find("<|python_tag|>");
    const bool family = tokenizer.find("<|start_header_id|>") && tokenizer.find("<|eot_id|>");
    if (!tag && !(family && offersTools))
        return nullptr;
    return std::make_unique<LlamaParser>(tag.value_or(-1), offersTools);
}

} // namespace engine
