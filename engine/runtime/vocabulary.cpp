// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/vocabulary.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

namespace engine {
namespace {

[[noreturn]] void refuse(const std::string &text)
{
    throw Error(ErrorCode::Refused, text);
}

void checkCount(const char *key, std::size_t found, std::size_t tokens)
{
    if (found != tokens)
        refuse(std::string(key) + " has " + std::to_string(found) + " entries, but tokenizer.ggml.tokens has "
               + std::to_string(tokens));
}

/// Other widths are a sign of a broken writer: readers that trust the key would run past the array.
void checkInt32(const Metadata &metadata, const char *key)
{
    const std::string_view type = metadata.typeName(key);
    if (!type.empty() && type != "array of int32" && type != "array of uint32")
        refuse(std::string(key) + " must be an array of int32, found " + std::string(type));
}

std::vector<std::string> readTokens(const Metadata &metadata)
{
    constexpr const char *key = "tokenizer.ggml.tokens";
    if (metadata.find(key) == nullptr)
        refuse(std::string(key) + " is missing");
    const std::vector<std::string> *tokens = metadata.texts(key);
    if (tokens == nullptr)
        refuse(std::string(key) + " must be an array of strings");
    if (tokens->empty())
        refuse(std::string(key) + " is empty, no vocabulary");
    if (tokens->size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
        refuse(std::string(key) + " has too many entries, " + std::to_string(tokens->size()));
    return *tokens;
}

TokenKind kindOf(std::int64_t type, std::size_t index)
{
    switch (type) {
    case 0: // "undefined", written by early converters
    case 1:
        return TokenKind::Normal;
    case 2:
        return TokenKind::Unknown;
    case 3:
        return TokenKind::Control;
    case 4:
        return TokenKind::UserDefined;
    case 5:
        return TokenKind::Unused;
    case 6:
        return TokenKind::Byte;
    default:
        refuse("tokenizer.ggml.token_type[" + std::to_string(index) + "] is " + std::to_string(type)
               + ", unknown, wanted a type from 1 to 6");
    }
}

std::vector<TokenKind> readKinds(const Metadata &metadata, std::size_t tokens)
{
    constexpr const char *key = "tokenizer.ggml.token_type";
    const auto types = metadata.integers(key);
    if (!types)
        return {};
    checkInt32(metadata, key);
    checkCount(key, types->size(), tokens);
    std::vector<TokenKind> kinds;
    kinds.reserve(tokens);
    for (const std::int64_t type : *types)
        kinds.push_back(kindOf(type, kinds.size()));
    return kinds;
}

std::vector<float> readScores(const Metadata &metadata, std::size_t tokens)
{
    constexpr const char *key = "tokenizer.ggml.scores";
    const auto numbers = metadata.numbers(key);
    if (!numbers)
        return {};
    checkCount(key, numbers->size(), tokens);
    std::vector<float> scores;
    scores.reserve(tokens);
    for (const double score : *numbers) {
        if (std::isnan(score))
            refuse(std::string(key) + "[" + std::to_string(scores.size()) + "] is not a number, which has no order");
        scores.push_back(static_cast<float>(score));
    }
    return scores;
}

std::optional<int> readId(const Metadata &metadata, const std::string &name, std::size_t tokens)
{
    const std::string key = "tokenizer.ggml." + name + "_token_id";
    const auto id = metadata.integer(key);
    if (!id)
        return std::nullopt;
    if (*id < 0 || static_cast<std::uint64_t>(*id) >= tokens)
        refuse(key + " " + std::to_string(*id) + " is out of range, wanted below " + std::to_string(tokens)
               + ", the size of the vocabulary");
    return static_cast<int>(*id);
}

/// Ids that a model must not say; only checked, as nothing here uses them.
void checkSuppressed(const Metadata &metadata, std::size_t tokens)
{
    constexpr const char *key = "tokenizer.ggml.suppress_tokens";
    const auto ids = metadata.integers(key);
    if (!ids)
        return;
    checkInt32(metadata, key);
    for (const std::int64_t id : *ids) {
        if (id < 0 || static_cast<std::uint64_t>(id) >= tokens)
            refuse(std::string(key) + " holds " + std::to_string(id) + ", out of range, wanted below "
                   + std::to_string(tokens));
    }
}

void checkEmbedding(const Checkpoint &checkpoint, std::size_t tokens)
{
    const TensorInfo *embedding = checkpoint.find("token_embd.weight");
    if (embedding == nullptr || embedding->shape.empty())
        return;
    const std::int64_t rows = embedding->shape.front();
    if (rows < 0 || static_cast<std::uint64_t>(rows) < tokens)
        refuse("token_embd.weight has " + std::to_string(rows) + " embedding rows, but tokenizer.ggml.tokens has "
               + std::to_string(tokens) + " entries, a larger vocabulary");
}

std::string readText(const Metadata &metadata, const char *key)
{
    const std::string *text = metadata.text(key);
    return text != nullptr ? *text : std::string();
}

std::string readBytes(const Metadata &metadata, const char *key)
{
    const auto values = metadata.integers(key);
    if (!values)
        return {};
    const std::string_view type = metadata.typeName(key);
    if (!type.empty() && type != "array of uint8" && type != "array of int8")
        refuse(std::string(key) + " must be an array of uint8, found " + std::string(type));
    std::string bytes;
    bytes.reserve(values->size());
    for (const std::int64_t value : *values)
        bytes.push_back(static_cast<char>(value));
    return bytes;
}

} // namespace

bool isNamedPhi3(std::string name)
{
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return name.find("phi-3") != std::string::npos || name.find("phi3") != std::string::npos;
}

std::vector<int> readEnds(const Metadata &metadata)
{
    std::vector<int> ids;
    for (const std::int64_t id :
         metadata.integers("tokenizer.ggml.eos_token_ids").value_or(std::vector<std::int64_t>{})) {
        if (id >= 0 && id <= std::numeric_limits<int>::max())
            ids.push_back(static_cast<int>(id));
    }
    return ids;
}

VocabularyData readVocabulary(const Checkpoint &checkpoint)
{
    const Metadata &metadata = checkpoint.metadata();
    VocabularyData data;
    data.tokens = readTokens(metadata);
    const std::size_t tokens = data.tokens.size();
    if (metadata.find("tokenizer.ggml.model") == nullptr)
        refuse("tokenizer.ggml.model is missing");
    data.model = readText(metadata, "tokenizer.ggml.model");
    data.pre = readText(metadata, "tokenizer.ggml.pre");
    data.kinds = readKinds(metadata, tokens);
    data.scores = readScores(metadata, tokens);
    if (const std::vector<std::string> *merges = metadata.texts("tokenizer.ggml.merges"))
        data.merges = *merges;
    else if (data.model == "gpt2")
        refuse("tokenizer.ggml.merges is missing, which byte-level BPE needs");
    data.bos = readId(metadata, "bos", tokens);
    data.eos = readId(metadata, "eos", tokens);
    data.eot = readId(metadata, "eot", tokens);
    data.eom = readId(metadata, "eom", tokens);
    data.unk = readId(metadata, "unknown", tokens);
    data.pad = readId(metadata, "padding", tokens);
    data.addBos = metadata.boolean("tokenizer.ggml.add_bos_token");
    data.addEos = metadata.boolean("tokenizer.ggml.add_eos_token");
    data.addSpacePrefix = metadata.boolean("tokenizer.ggml.add_space_prefix");
    data.removeExtraSpaces = metadata.boolean("tokenizer.ggml.remove_extra_whitespaces").value_or(false);
    data.characterMap = readBytes(metadata, "tokenizer.ggml.precompiled_charsmap");
    data.stripsBehindSpecial = data.model == "llama" && isNamedPhi3(readText(metadata, "general.name"));
    data.ends = readEnds(metadata);
    data.steps = readText(metadata, tokenizerStepsKey);
    checkSuppressed(metadata, tokens);
    checkEmbedding(checkpoint, tokens);
    return data;
}

} // namespace engine
