// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/answer_grammars.h"

#include "engine/api/error.h"
#include "engine/text/json_grammar.h"

#include <algorithm>
#include <utility>

namespace engine {

AnswerGrammars::AnswerGrammars(const Tokenizer &tokenizer, int vocabSize)
    : m_tokenizer(tokenizer)
    , m_vocabSize(vocabSize)
{
}

std::shared_ptr<GrammarStates> AnswerGrammars::states(const std::string &schema)
{
    constexpr std::size_t mostKnown = 8;
    const auto known = std::ranges::find(m_known, schema, &Known::schema);
    if (known != m_known.end() && !known->states->isFull()) {
        std::rotate(known, known + 1, m_known.end());
        return m_known.back().states;
    }
    if (known != m_known.end())
        m_known.erase(known);
    auto grammar = std::make_shared<const Grammar>(jsonSchemaGrammar(schema));
    if (!m_vocabulary) {
        std::vector<int> markers; // within a string they would still end what they mark
        for (const char *name : {"<tool_call>", "</tool_call>", "<think>", "</think>"})
            if (const auto id = m_tokenizer.find(name))
                markers.push_back(*id);
        m_vocabulary = std::make_shared<const SortedVocabulary>(m_tokenizer, m_vocabSize, markers);
    }
    if (m_known.size() >= mostKnown)
        m_known.erase(m_known.begin());
    m_known.push_back({schema, std::make_shared<GrammarStates>(std::move(grammar), m_vocabulary)});
    return m_known.back().states;
}

std::unique_ptr<GrammarMatcher> AnswerGrammars::matcher(const std::string &schema)
{
    return std::make_unique<GrammarMatcher>(states(schema));
}

int AnswerGrammars::callMarker() const
{
    const bool closed = m_tokenizer.find("</tool_call>").has_value();
    return closed ? m_tokenizer.find("<tool_call>").value_or(-1) : -1;
}

std::shared_ptr<GrammarStates> AnswerGrammars::strictCalls(const std::string &toolsJson)
{
    const std::optional<std::string> schema = strictCallSchema(toolsJson);
    if (!schema)
        return nullptr;
    if (callMarker() < 0)
        throw Error(ErrorCode::Refused,
                    "tools: found a strict one, but this model's way to call tools cannot be held to a schema; strict "
                    "false or a tool_choice that names one is wanted");
    return states(*schema);
}

} // namespace engine
