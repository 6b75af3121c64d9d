// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/tokenizer_gguf.h"
#include "engine/text/tokenizer_step_fields.h"
#include "engine/text/tokenizer_steps.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace engine {
namespace {

using tokenizer_steps::flag;
using tokenizer_steps::member;

[[noreturn]] void refuseSteps(const std::string &problem)
{
    throw Error(ErrorCode::Refused, std::string(tokenizerStepsKey) + ": " + problem);
}

Json parsed(const std::string &text)
{
    Json steps = parseJson(text, tokenizerStepsKey);
    if (!steps.is_object())
        refuseSteps("found " + std::string(steps.type_name()) + ", wanted an object");
    return steps;
}

/// Ids of added tokens that are no words of the model.
std::vector<int> outsideOf(const Json &steps, std::size_t tokens)
{
    std::vector<int> ids;
    const Json *list = member(steps, "outside_model");
    if (list == nullptr)
        return ids;
    if (!list->is_array())
        refuseSteps("outside_model must be a list of ids");
    for (const Json &id : *list) {
        if (!id.is_number_integer() || id < 0 || id >= tokens)
            refuseSteps("outside_model holds " + id.dump() + ", wanted ids from 0 and below " + std::to_string(tokens));
        ids.push_back(id.get<int>());
    }
    return ids;
}

/// The spellings of the keys but for added tokens, which GGUF writes as they stand in text.
std::vector<std::string> spellings(const VocabularyData &data, const Json &steps)
{
    std::vector<std::string> tokens = data.tokens;
    const Json *added = member(steps, "added_tokens");
    if (added == nullptr || !added->is_array())
        return tokens;
    for (const Json &entry : *added) {
        const Json *id = entry.is_object() ? member(entry, "id") : nullptr;
        const Json *content = entry.is_object() ? member(entry, "content") : nullptr;
        if (id != nullptr && content != nullptr && id->is_number_integer() && *id >= 0 && *id < tokens.size()
            && content->is_string())
            tokens[id->get<std::size_t>()] = content->get<std::string>();
    }
    return tokens;
}

void addTokens(const VocabularyData &data, const Json &steps, TokenizerParts &parts)
{
    const std::vector<std::string> tokens = spellings(data, steps);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        const int id = static_cast<int>(i);
        parts.tokens.set(id, tokens[i]);
        const bool unused = !data.kinds.empty() && data.kinds[i] == TokenKind::Unused;
        if (!tokens[i].empty() && !unused)
            parts.tokens.index(id);
    }
}

UnigramOptions unigramOf(const VocabularyData &data, const std::vector<int> &outside, bool byteFallback)
{
    constexpr double none = -std::numeric_limits<double>::infinity();
    UnigramOptions options;
    options.scores.assign(data.scores.begin(), data.scores.end());
    options.scores.resize(data.tokens.size(), none);
    for (std::size_t i = 0; i < data.kinds.size(); ++i) {
        if (data.kinds[i] == TokenKind::Unused)
            options.scores[i] = none;
    }
    for (const int id : outside)
        options.scores[static_cast<std::size_t>(id)] = none;
    options.unknown = data.unk.value_or(-1);
    options.refusesUnknown = true;
    options.byteFallback = byteFallback;
    return options;
}

} // namespace

void setByGgufSteps(const VocabularyData &data, TokenizerParts &parts)
{
    const Json steps = parsed(data.steps);
    addTokens(data, steps, parts);
    std::vector<int> outside = outsideOf(steps, data.tokens.size());
    const Json none = Json::object();
    const Json *given = member(steps, "model");
    const Json &model = given != nullptr && given->is_object() ? *given : none;
    if (data.model == ggufUnigram) {
        parts.unigram = unigramOf(data, outside, flag(model, "byte_fallback", false));
    } else {
        if (data.model == ggufSentencePiece && data.merges.empty())
            parts.bpe.scores = ggufMergingScores(data, parts.tokens);
        else
            addGgufMerges(data, parts);
        tokenizer_steps::readBpeOptions(model, parts);
    }
    parts.added = tokenizer_steps::readAddedTokens(steps, data.tokens.size(), parts.tokens, outside);
    parts.bpe.outsideModel = std::move(outside);
    tokenizer_steps::read(steps, parts);
}

} // namespace engine
