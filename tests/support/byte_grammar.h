// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/grammar_matcher.h"
#include "engine/text/json_grammar.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

/// Every byte, some longer tokens that cross the borders of JSON's parts, an end token and a control token.
class ByteTokenizer final : public engine::Tokenizer {
public:
    static constexpr int endId = 256;
    static constexpr int controlId = 257;

    ByteTokenizer()
    {
        for (int byte = 0; byte < 256; ++byte)
            m_pieces.emplace_back(1, static_cast<char>(byte));
        m_pieces.emplace_back("<end>");
        m_pieces.emplace_back("<control>");
        for (const char *piece :
             {"{\"", "\":",  "\": ",       "\", \"", "\"}",  "}}", "[]",    "],", "true", "false", "null",
              "12",  "name", "{\"name\":", " ",      "\n  ", "€",  "\\u00", "ab", "abc",  "{}",    "[{"})
            m_pieces.emplace_back(piece);
    }
    std::vector<int> encode(std::string_view, const engine::EncodeOptions &) const override { return {}; }
    std::string decode(const std::vector<int> &ids, bool) const override
    {
        std::string text;
        for (const int id : ids)
            text += bytes(id, true);
        return text;
    }
    std::string piece(int id) const override { return m_pieces.at(std::size_t(id)); }
    int vocabSize() const override { return int(m_pieces.size()); }
    bool isControl(int id) const override { return id == endId || id == controlId; }
    std::string bytes(int id, bool) const override { return isControl(id) ? std::string() : piece(id); }
    std::optional<int> bos() const override { return {}; }
    std::optional<int> eos() const override { return endId; }
    bool addsBos() const override { return false; }
    bool isEndOfGeneration(int id) const override { return id == endId; }
    std::optional<int> find(std::string_view) const override { return {}; }

private:
    std::vector<std::string> m_pieces;
};

/// A schema over that vocabulary, which is three tokens smaller than its network.
inline std::shared_ptr<engine::GrammarStates> statesOf(const std::string &schema)
{
    static const ByteTokenizer tokenizer;
    static const auto vocabulary =
        std::make_shared<const engine::SortedVocabulary>(tokenizer, tokenizer.vocabSize() + 3);
    return std::make_shared<engine::GrammarStates>(
        std::make_shared<const engine::Grammar>(engine::jsonSchemaGrammar(schema)), vocabulary);
}

inline bool fits(engine::GrammarStates &states, const std::string &text)
{
    int state = states.start();
    for (const char c : text) {
        state = states.next(state, static_cast<std::uint8_t>(c));
        if (state == engine::GrammarStates::dead)
            return false;
    }
    return states.isComplete(state);
}

inline bool fits(const std::string &schema, const std::string &text)
{
    return fits(*statesOf(schema), text);
}
