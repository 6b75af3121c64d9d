// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/tokenizer_gguf.h"

#include "engine/text/byte_fallback.h"
#include "engine/text/utf8.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <utility>

namespace engine {
namespace {

[[noreturn]] void refuseVocabulary(const std::string &text)
{
    throw Error(ErrorCode::Refused, text);
}

void checkModel(const VocabularyData &data)
{
    constexpr std::array<std::pair<std::string_view, std::string_view>, 4> others{
        {{"bert", "WordPiece"}, {"rwkv", "RWKV"}, {"plamo2", "PLaMo 2"}, {"gemma4", "Gemma 4"}}};
    if (data.model == ggufByteLevel || data.model == ggufSentencePiece || data.model == ggufUnigram)
        return;
    for (const auto &[name, kind] : others) {
        if (data.model == name)
            refuseVocabulary(
                "tokenizer.ggml.model \"" + data.model + "\", a tokenizer of type " + std::string(kind)
                + ", is not supported, only \"gpt2\" (byte-level BPE), \"llama\" (SentencePiece BPE) and \"t5\""
                + " (Unigram) are");
    }
    refuseVocabulary("tokenizer.ggml.model " + utf8::quoted(data.model)
                     + " is unknown, wanted \"gpt2\", \"llama\" or \"t5\"");
}

void checkSizes(const VocabularyData &data)
{
    const std::size_t tokens = data.tokens.size();
    const auto wrong = [&](const char *key, std::size_t found) {
        refuseVocabulary(std::string(key) + " has " + std::to_string(found) + " entries, but tokenizer.ggml.tokens has "
                         + std::to_string(tokens));
    };
    if (tokens == 0)
        refuseVocabulary("tokenizer.ggml.tokens is empty, no vocabulary");
    if (tokens > static_cast<std::size_t>(std::numeric_limits<int>::max()))
        refuseVocabulary("tokenizer.ggml.tokens has too many entries, " + std::to_string(tokens));
    if (!data.kinds.empty() && data.kinds.size() != tokens)
        wrong("tokenizer.ggml.token_type", data.kinds.size());
    if (!data.scores.empty() && data.scores.size() != tokens)
        wrong("tokenizer.ggml.scores", data.scores.size());
    const auto check = [&](const std::optional<int> &id, const char *key) {
        if (id && (*id < 0 || static_cast<std::size_t>(*id) >= tokens))
            refuseVocabulary(std::string("tokenizer.ggml.") + key + " " + std::to_string(*id)
                             + " is out of range, wanted below " + std::to_string(tokens));
    };
    check(data.bos, "bos_token_id");
    check(data.eos, "eos_token_id");
    check(data.eot, "eot_token_id");
    check(data.eom, "eom_token_id");
    check(data.unk, "unknown_token_id");
    check(data.pad, "padding_token_id");
}

/// Source: ggml-org/llama.cpp, src/llama-vocab.cpp, for models whose name says that they are Phi-3.
bool keepsSpace(const std::string &token)
{
    return token == "<s>" || token == "<unk>" || token == "<|endoftext|>";
}

/// Of two tokens with one text the later one is found; control and user-defined ones are searched in text.
void addTokens(const VocabularyData &data, TokenizerParts &parts)
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
            parts.added.push_back({data.tokens[i], id, kind != TokenKind::UserDefined, false, false,
                                   data.stripsBehindSpecial && !keepsSpace(data.tokens[i])});
    }
}

} // namespace

void addGgufMerges(const VocabularyData &data, TokenizerParts &parts)
{
    parts.merges.reserve(data.merges.size());
    std::string joined;
    for (const std::string &text : data.merges) {
        const auto place = [&] { return "tokenizer.ggml.merges[" + std::to_string(parts.merges.size()) + "] "; };
        const std::size_t space = text.find(' ', 1);
        if (text.empty() || space == std::string::npos || space + 1 == text.size())
            refuseVocabulary(place() + utf8::quoted(text) + " is not a pair of two parts with a space between");
        const auto find = [&](std::string_view part) {
            const int id = parts.tokens.find(part);
            if (id < 0)
                refuseVocabulary(place() + utf8::quoted(text) + " needs " + utf8::quoted(part)
                                 + ", which is not in tokenizer.ggml.tokens");
            return id;
        };
        const std::string_view left = std::string_view(text).substr(0, space);
        const std::string_view right = std::string_view(text).substr(space + 1);
        joined.assign(left).append(right);
        parts.merges.push_back({find(left), find(right), find(joined)});
    }
}

/// Which tokens text may become; the others are only found when they are searched for.
std::vector<float> ggufMergingScores(const VocabularyData &data, const TokenTable &tokens)
{
    std::vector<float> scores = data.scores;
    scores.resize(data.tokens.size(), 0);
    for (std::size_t i = 0; i < scores.size(); ++i) {
        const TokenKind kind = data.kinds.empty() ? TokenKind::Normal : data.kinds[i];
        const bool merges = kind == TokenKind::Normal || kind == TokenKind::UserDefined || kind == TokenKind::Unused;
        if (!merges || byte_fallback::byteOf(tokens.spelling(static_cast<int>(i))))
            scores[i] = -std::numeric_limits<float>::infinity();
    }
    return scores;
}

namespace {

void setByteLevel(const VocabularyData &data, TokenizerParts &parts)
{
    PreTokenizerRule rule = preTokenizerRule(data.pre.empty() ? "default" : data.pre);
    addGgufMerges(data, parts);
    parts.bpe.ignoreMerges = rule.ignoreMerges;
    parts.preTokenizer = std::move(rule.steps);
    parts.decoder.addByteLevel();
    if (data.bos && data.addBos.value_or(rule.addsBos))
        parts.prefix.push_back(*data.bos);
}

/// The keys' defaults are those of ggml-org/llama.cpp, src/llama-vocab.cpp.
void setSentencePiece(const VocabularyData &data, TokenizerParts &parts)
{
    constexpr const char *mark = "\xE2\x96\x81"; // U+2581
    const bool prefixesSpace = data.addSpacePrefix.value_or(true);
    parts.bpe.byteLevel = false;
    parts.bpe.byteFallback = true;
    parts.bpe.unknown = data.unk.value_or(-1);
    parts.bpe.scores = ggufMergingScores(data, parts.tokens);
    if (prefixesSpace)
        parts.normalizer.addPrepend(" ");
    parts.normalizer.addReplace(" ", mark);
    parts.decoder.addReplace(mark, " ");
    parts.decoder.addBytes();
    parts.decoder.addFuse();
    if (prefixesSpace)
        parts.decoder.addStrip(' ', 1, 0);
    if (data.bos && data.addBos.value_or(true))
        parts.prefix.push_back(*data.bos);
}

/// Which tokens are words of the model; the others are only found when they are searched for.
std::vector<double> wordScores(const VocabularyData &data)
{
    std::vector<double> scores(data.scores.begin(), data.scores.end());
    scores.resize(data.tokens.size(), 0);
    for (std::size_t i = 0; i < scores.size(); ++i) {
        const TokenKind kind = data.kinds.empty() ? TokenKind::Normal : data.kinds[i];
        if (kind == TokenKind::UserDefined)
            scores[i] = 0;
        else if (kind != TokenKind::Normal && kind != TokenKind::Unused)
            scores[i] = -std::numeric_limits<double>::infinity();
    }
    return scores;
}

/// Defaults and what becomes of spaces: ggml-org/llama.cpp, src/llama-vocab.cpp.
void setUnigram(const VocabularyData &data, TokenizerParts &parts)
{
    constexpr const char *mark = "\xE2\x96\x81"; // U+2581
    parts.bpe.byteLevel = false;
    parts.unigram = UnigramOptions{wordScores(data), data.unk.value_or(-1), false, false};
    if (!data.characterMap.empty())
        parts.normalizer.addCharacterMap(CharacterMap::fromBytes(data.characterMap));
    const bool prefixes = data.addSpacePrefix.value_or(false) || data.removeExtraSpaces;
    if (data.removeExtraSpaces) {
        parts.normalizer.addReplace(Regex("\\A +| +\\z"), "");
        parts.normalizer.addReplace(Regex(" +"), mark);
    } else {
        parts.normalizer.addReplace(" ", mark);
    }
    if (prefixes)
        parts.normalizer.addPrepend(mark);
    parts.decoder.addMetaspace(mark, prefixes);
    if (data.bos && data.addBos.value_or(false))
        parts.prefix.push_back(*data.bos);
}

} // namespace

std::unique_ptr<Tokenizer> makeTokenizer(const VocabularyData &data)
{
    checkSizes(data);
    checkModel(data);
    TokenizerParts parts;
    parts.bos = data.bos;
    parts.eos = data.eos;
    if (!data.steps.empty()) {
        setByGgufSteps(data, parts);
    } else {
        addTokens(data, parts);
        parts.addedAreVerbatim = true;
        if (data.model == ggufSentencePiece)
            setSentencePiece(data, parts);
        else if (data.model == ggufUnigram)
            setUnigram(data, parts);
        else
            setByteLevel(data, parts);
        if (data.eos && data.addEos.value_or(data.model == ggufUnigram))
            parts.suffix.push_back(*data.eos);
    }
    parts.endOfGeneration = knownEndTokens(parts.added);
    for (const std::optional<int> &id : {data.eos, data.eot, data.eom}) {
        if (id)
            parts.endOfGeneration.push_back(*id);
    }
    std::ranges::copy_if(data.ends, std::back_inserter(parts.endOfGeneration),
                         [&](int id) { return parts.tokens.has(id); });
    return makePipelineTokenizer(std::move(parts));
}

} // namespace engine
