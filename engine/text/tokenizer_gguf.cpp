// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/tokenizer_bpe.h"
#include "engine/text/utf8.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace engine {
namespace {

[[noreturn]] void refuse(const std::string &text)
{
    throw Error(ErrorCode::Refused, text);
}

void checkModel(const VocabularyData &data)
{
    constexpr std::array<std::pair<std::string_view, std::string_view>, 6> others{
        {{"llama", "SentencePiece"},
         {"t5", "Unigram"},
         {"bert", "WordPiece"},
         {"rwkv", "RWKV"},
         {"plamo2", "PLaMo 2"},
         {"gemma4", "SentencePiece-like BPE"}}};
    if (data.model == "gpt2")
        return;
    for (const auto &[name, kind] : others) {
        if (data.model == name)
            refuse("tokenizer.ggml.model \"" + data.model + "\", a tokenizer of type " + std::string(kind)
                   + ", is not supported, only \"gpt2\" (byte-level BPE) is");
    }
    refuse("tokenizer.ggml.model " + utf8::quoted(data.model) + " is unknown, wanted \"gpt2\"");
}

void checkSizes(const VocabularyData &data)
{
    const std::size_t tokens = data.tokens.size();
    const auto wrong = [&](const char *key, std::size_t found) {
        refuse(std::string(key) + " has " + std::to_string(found) + " entries, but tokenizer.ggml.tokens has "
               + std::to_string(tokens));
    };
    if (tokens == 0)
        refuse("tokenizer.ggml.tokens is empty, no vocabulary");
    if (tokens > static_cast<std::size_t>(std::numeric_limits<int>::max()))
        refuse("tokenizer.ggml.tokens has too many entries, " + std::to_string(tokens));
    if (!data.kinds.empty() && data.kinds.size() != tokens)
        wrong("tokenizer.ggml.token_type", data.kinds.size());
    if (!data.scores.empty() && data.scores.size() != tokens)
        wrong("tokenizer.ggml.scores", data.scores.size());
    const auto check = [&](const std::optional<int> &id, const char *key) {
        if (id && (*id < 0 || static_cast<std::size_t>(*id) >= tokens))
            refuse(std::string("tokenizer.ggml.") + key + " " + std::to_string(*id) + " is out of range, wanted below "
                   + std::to_string(tokens));
    };
    check(data.bos, "bos_token_id");
    check(data.eos, "eos_token_id");
    check(data.eot, "eot_token_id");
    check(data.eom, "eom_token_id");
    check(data.unk, "unknown_token_id");
    check(data.pad, "padding_token_id");
}

/// Of two tokens with one text the later one is found; control and user-defined ones are searched in text.
void addTokens(const VocabularyData &data, BpeTokenizerParts &parts)
{
    std::size_t bytes = 0;
    for (const std::string &token : data.tokens)
        bytes += token.size();
    parts.tokens.reserve(data.tokens.size(), bytes);
    for (std::size_t i = 0; i < data.tokens.size(); ++i) {
        const int id = static_cast<int>(i);
        const TokenKind kind = data.kinds.empty() ? TokenKind::Normal : data.kinds[i];
        parts.tokens.set(id, data.tokens[i]);
        if (data.tokens[i].empty())
            continue;
        parts.tokens.index(id);
        if (kind == TokenKind::Control || kind == TokenKind::Unknown || kind == TokenKind::UserDefined)
            parts.added.push_back({data.tokens[i], id, kind != TokenKind::UserDefined});
    }
}

void addMerges(const VocabularyData &data, BpeTokenizerParts &parts)
{
    parts.merges.reserve(data.merges.size());
    for (const std::string &text : data.merges) {
        const std::string place = "tokenizer.ggml.merges[" + std::to_string(parts.merges.size()) + "] ";
        const std::size_t space = text.find(' ', 1);
        if (text.empty() || space == std::string::npos || space + 1 == text.size())
            refuse(place + utf8::quoted(text) + " is not a pair of two parts with a space between");
        const auto find = [&](const std::string &part) {
            const int id = parts.tokens.find(part);
            if (id < 0)
                refuse(place + utf8::quoted(text) + " needs " + utf8::quoted(part)
                       + ", which is not in tokenizer.ggml.tokens");
            return id;
        };
        const std::string left = text.substr(0, space);
        const std::string right = text.substr(space + 1);
        parts.merges.push_back({find(left), find(right), find(left + right)});
    }
}

} // namespace

std::unique_ptr<Tokenizer> makeTokenizer(const VocabularyData &data)
{
    checkSizes(data);
    checkModel(data);
    PreTokenizerRule rule = preTokenizerRule(data.pre.empty() ? "default" : data.pre);
    BpeTokenizerParts parts;
    addTokens(data, parts);
    addMerges(data, parts);
    parts.model.ignoreMerges = rule.ignoreMerges;
    parts.preTokenizer = std::move(rule.steps);
    parts.addedAreVerbatim = true;
    parts.bos = data.bos;
    parts.eos = data.eos;
    if (data.bos && data.addBos.value_or(rule.addsBos))
        parts.prefix.push_back(*data.bos);
    if (data.eos && data.addEos.value_or(false))
        parts.suffix.push_back(*data.eos);
    parts.endOfGeneration = knownEndTokens(parts.added);
    for (const std::optional<int> &id : {data.eos, data.eot, data.eom}) {
        if (id)
            parts.endOfGeneration.push_back(*id);
    }
    return makeBpeTokenizer(std::move(parts));
}

} // namespace engine
