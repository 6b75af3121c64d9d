// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/output_parser.h"

#include "engine/text/output_formats.h"

#include <algorithm>
#include <utility>

namespace engine {

bool ThinkMarkers::leavesOpen(std::span<const int> prompt, const Tokenizer &tokenizer) const
{
    for (auto token = prompt.rbegin(); token != prompt.rend(); ++token) {
        if (*token == close || (*token < tokenizer.vocabSize() && tokenizer.isEndOfGeneration(*token)))
            return false;
        if (*token == open)
            return open >= 0;
    }
    return false;
}

void ThinkingFields::begin(bool reasoning)
{
    m_reasons = reasoning;
    if (!reasoning)
        m_content.keepStart();
}

void ThinkingFields::marker(int token)
{
    m_reasons = token == m_markers.open;
    (m_reasons ? m_reasoning : m_content).restart("\n");
}

void ThinkingFields::text(std::string_view text, OutputDelta &out)
{
    if (m_reasons)
        out.reasoning += m_reasoning.append(text);
    else
        out.content += m_content.append(text);
}

void ThinkingFields::finish(OutputDelta &out)
{
    if (!m_reasons)
        out.content += m_content.flush();
}

std::unique_ptr<OutputParser> makeOutputParser(const Tokenizer &tokenizer, bool offersTools)
{
    if (auto parser = makeHarmonyParser(tokenizer))
        return parser;
    if (auto parser = makeDeepSeekParser(tokenizer))
        return parser;
    if (auto parser = makeMistralParser(tokenizer))
        return parser;
    if (auto parser = makeLlamaParser(tokenizer, offersTools))
        return parser;
    return makeTaggedParser(tokenizer);
}

} // namespace engine
