// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/tokenizer_file.h"
#include "engine/text/tokenizer_pipeline.h"
#include "engine/text/tokenizer_step_fields.h"
#include "engine/text/tokenizer_steps.h"
#include "engine/text/utf8.h"

#include <algorithm>
#include <utility>

namespace engine {

using tokenizer_steps::member;
using tokenizer_steps::readAddedTokens;

namespace {

/// An id may lie this far beyond the number of tokens that are listed; real files have small gaps.
constexpr std::int64_t idSlack = 65536;

[[noreturn]] void refuseTokenizer(const std::string &text)
{
    throw Error(ErrorCode::Refused, text);
}

std::string text(const Json &object, const char *key)
{
    const Json *value = member(object, key);
    if (value != nullptr && !value->is_string())
        refuseTokenizer(std::string("tokenizer: ") + key + " must be a string");
    return value != nullptr ? value->get<std::string>() : std::string();
}

bool optionalFlag(const Json &object, const char *key)
{
    const Json *value = member(object, key);
    if (value != nullptr && !value->is_boolean())
        refuseTokenizer(std::string("tokenizer: ") + key + " must be true or false");
    return value != nullptr && value->get<bool>();
}

/// The kind of model, which old files leave out: the first one that has all it needs, in this order.
std::string kindOf(const TokenizerFile &file, const Json &model)
{
    const std::string type = text(model, "type");
    if (type.empty()) {
        const bool wordPiece =
            model.contains("continuing_subword_prefix") && model.contains("max_input_chars_per_word");
        return file.hasMerges ? "BPE" : file.vocabularyIsList ? "Unigram" : wordPiece ? "WordPiece" : "WordLevel";
    }
    if (type != "BPE" && type != "Unigram" && type != "WordPiece" && type != "WordLevel")
        refuseTokenizer("tokenizer: model type " + utf8::quoted(type)
                        + " is not supported, only BPE, Unigram, WordPiece and WordLevel are");
    return type;
}

/// The model, whose kind is left in `kind`.
const Json &checkModel(const TokenizerFile &file, std::string &kind)
{
    const Json *model = member(file.rest, "model");
    if (model == nullptr)
        refuseTokenizer("tokenizer: model is missing");
    if (!model->is_object())
        refuseTokenizer("tokenizer: model must be an object");
    kind = kindOf(file, *model);
    if (!file.hasVocabulary)
        refuseTokenizer("tokenizer: model.vocab is missing");
    const bool wantsList = kind == "Unigram";
    if (file.vocabularyIsList != wantsList)
        refuseTokenizer(wantsList ? "tokenizer: model.vocab of a Unigram model must be a list of pairs, found an object"
                                  : "tokenizer: model.vocab must be an object of ids by text, found a list");
    if (!file.listFault.empty())
        refuseTokenizer("tokenizer: model.vocab: " + file.listFault);
    if (file.vocabulary.empty())
        refuseTokenizer("tokenizer: model.vocab is empty");
    if (kind == "BPE" && !file.hasMerges)
        refuseTokenizer("tokenizer: model.merges is missing");
    return *model;
}

/// Of two equal texts in a list the later one is found; in an object they are refused.
void addVocabulary(const TokenizerFile &file, TokenTable &tokens)
{
    tokens.reserve(file.vocabulary.size(), file.spellings.size());
    const std::int64_t limit = static_cast<std::int64_t>(file.vocabulary.size()) + idSlack;
    for (const TokenizerFile::VocabularyEntry &entry : file.vocabulary) {
        const std::string_view spelling = file.spelling(entry);
        if (entry.id >= limit)
            refuseTokenizer("tokenizer: model.vocab: id " + std::to_string(entry.id) + " of " + utf8::quoted(spelling)
                            + " is too large for a vocabulary of " + std::to_string(file.vocabulary.size())
                            + " tokens");
        const int id = static_cast<int>(entry.id);
        if (tokens.has(id))
            refuseTokenizer("tokenizer: model.vocab: duplicate id " + std::to_string(id) + " of "
                            + utf8::quoted(tokens.spelling(id)) + " and " + utf8::quoted(spelling));
        tokens.set(id, spelling);
        if (tokens.index(id) >= 0 && !file.vocabularyIsList)
            refuseTokenizer("tokenizer: model.vocab: duplicate key " + utf8::quoted(spelling));
    }
}

/// What two parts become: the second one loses what marks it as no beginning of a word.
int mergedId(const TokenizerFile::Merge &merge, std::string_view parts, std::size_t number,
             const std::string &continuation, const TokenTable &tokens)
{
    const std::string_view left = parts.substr(merge.begin, merge.leftBytes);
    const std::string_view right = parts.substr(merge.begin + merge.leftBytes, merge.rightBytes);
    const std::string place = "tokenizer: model.merges: merge " + std::to_string(number);
    if (right.size() < continuation.size())
        refuseTokenizer(place + ": its part " + utf8::quoted(right)
                        + " is shorter than the model's continuing_subword_prefix, " + utf8::quoted(continuation));
    std::string result(left);
    result += right.substr(continuation.size());
    const int id = tokens.find(result);
    if (id < 0)
        refuseTokenizer(place + " needs " + utf8::quoted(result) + ", which is not in model.vocab");
    return id;
}

std::vector<BpeMerge> resolveMerges(const TokenizerFile &file, const std::string &continuation,
                                    const TokenTable &tokens)
{
    std::vector<BpeMerge> merges;
    merges.reserve(file.merges.size());
    const std::string_view parts = file.mergeParts;
    for (const TokenizerFile::Merge &merge : file.merges) {
        const auto resolve = [&](std::uint32_t begin, std::uint32_t bytes) {
            const std::string_view part = parts.substr(begin, bytes);
            const int id = tokens.find(part);
            if (id < 0)
                refuseTokenizer("tokenizer: model.merges: merge " + std::to_string(merges.size()) + " needs "
                                + utf8::quoted(part) + ", which is not in model.vocab");
            return id;
        };
        BpeMerge made;
        made.left = resolve(merge.begin, merge.leftBytes);
        made.right = resolve(merge.begin + merge.leftBytes, merge.rightBytes);
        made.result = continuation.empty() ? resolve(merge.begin, merge.leftBytes + merge.rightBytes)
                                           : mergedId(merge, parts, merges.size(), continuation, tokens);
        merges.push_back(made);
    }
    return merges;
}

/// By id, which tokens are no words of the model.
std::vector<bool> outsideFlags(const std::vector<int> &outsideModel, int tokens)
{
    std::vector<bool> flags(outsideModel.empty() ? 0 : static_cast<std::size_t>(tokens));
    for (const int id : outsideModel)
        flags[static_cast<std::size_t>(id)] = true;
    return flags;
}

/// A text that the model cannot do without.
std::string needed(const Json &model, const char *key)
{
    if (member(model, key) == nullptr)
        refuseTokenizer(std::string("tokenizer: model.") + key + " is missing");
    return text(model, key);
}

WordPieceOptions readWordPiece(const Json &model)
{
    WordPieceOptions options;
    options.unknown = needed(model, "unk_token");
    options.continuation = needed(model, "continuing_subword_prefix");
    const Json *longest = member(model, "max_input_chars_per_word");
    if (longest == nullptr || !longest->is_number_unsigned())
        refuseTokenizer(
            "tokenizer: model.max_input_chars_per_word "
            + (longest == nullptr ? std::string("is missing") : "must be a count, found " + longest->dump()));
    options.longestWord = longest->get<std::size_t>();
    return options;
}

UnigramOptions readUnigram(const TokenizerFile &file, const Json &model)
{
    UnigramOptions options;
    options.scores = file.scores;
    options.refusesUnknown = true;
    options.byteFallback = optionalFlag(model, "byte_fallback");
    const Json *unknown = member(model, "unk_id");
    if (unknown == nullptr)
        return options;
    if (!unknown->is_number_integer() || *unknown < 0 || *unknown >= file.vocabulary.size())
        refuseTokenizer("tokenizer: model.unk_id " + unknown->dump() + " must be an integer from 0 and below "
                        + std::to_string(file.vocabulary.size()) + ", the size of model.vocab");
    options.unknown = unknown->get<int>();
    return options;
}

AddedToken readAdded(const Json &entry, std::size_t index, std::int64_t limit)
{
    const std::string place = "tokenizer: added_tokens[" + std::to_string(index) + "]";
    if (!entry.is_object())
        refuseTokenizer(place + " must be an object");
    const Json *id = member(entry, "id");
    const Json *content = member(entry, "content");
    if (id == nullptr || content == nullptr)
        refuseTokenizer(place + (id == nullptr ? ".id" : ".content") + " is missing");
    if (!id->is_number_integer() || !content->is_string())
        refuseTokenizer(place + (content->is_string() ? ".id must be an integer" : ".content must be a string"));
    if (*id < 0 || *id >= limit)
        refuseTokenizer(place + ".id " + id->dump() + " of " + utf8::quoted(content->get<std::string>())
                        + " is out of range, too far beyond the vocabulary: it must be from 0 and below "
                        + std::to_string(limit));
    return {content->get<std::string>(),       id->get<int>(),
            optionalFlag(entry, "special"),    optionalFlag(entry, "normalized"),
            optionalFlag(entry, "lstrip"),     optionalFlag(entry, "rstrip"),
            optionalFlag(entry, "single_word")};
}

/// Tokens of added_tokens.json that tokenizer.json does not have.
void readMoreAdded(const Json &more, TokenizerParts &parts, std::vector<int> &outsideModel)
{
    if (more.is_null())
        return;
    const std::int64_t limit = parts.tokens.size() + static_cast<std::int64_t>(more.size()) + idSlack;
    for (const auto &[content, id] : more.items()) {
        if (!id.is_number_integer() || id < 0 || id >= limit)
            refuseTokenizer("added_tokens.json: the id of " + utf8::quoted(content)
                            + " must be an integer from 0 and below " + std::to_string(limit));
        if (content.empty() || parts.tokens.find(content) >= 0)
            continue;
        const int number = id.get<int>();
        if (parts.tokens.has(number))
            refuseTokenizer("added_tokens.json: " + utf8::quoted(content) + " has id " + std::to_string(number)
                            + ", which already is that of " + utf8::quoted(parts.tokens.spelling(number)));
        parts.tokens.set(number, content);
        parts.tokens.index(number);
        outsideModel.push_back(number);
        parts.added.push_back({content, number, false, true, false, false, false});
    }
}

/// bos_token and the like of tokenizer_config.json: a string, or an object with the string in `content`.
std::optional<int> configToken(const Json &config, const char *key, const TokenTable &tokens)
{
    const Json *value = config.is_object() ? member(config, key) : nullptr;
    if (value != nullptr && value->is_object())
        value = member(*value, "content");
    if (value == nullptr || !value->is_string())
        return std::nullopt;
    const int id = tokens.find(value->get<std::string>());
    return id >= 0 ? std::optional(id) : std::nullopt;
}

void setEnds(TokenizerParts &parts, const Json &config, const Json &specialTokens, const std::vector<int> &ends)
{
    const auto token = [&](const char *key) {
        const auto id = configToken(config, key, parts.tokens);
        return id ? id : configToken(specialTokens, key, parts.tokens);
    };
    parts.bos = token("bos_token");
    if (!parts.bos && !parts.prefix.empty())
        parts.bos = parts.prefix.front();
    parts.eos = token("eos_token");
    parts.endOfGeneration = knownEndTokens(parts.added);
    if (parts.eos)
        parts.endOfGeneration.push_back(*parts.eos);
    for (const int id : ends) {
        if (id >= 0 && parts.tokens.has(id))
            parts.endOfGeneration.push_back(id);
    }
}

/// A small file that holds an object, or null for an empty text.
Json smallObject(std::string_view text, const char *file)
{
    if (text.empty())
        return {};
    Json value = parseJson(text, file);
    if (!value.is_object())
        refuseTokenizer(std::string(file) + " must hold an object, found " + value.type_name());
    return value;
}

} // namespace

void tokenizer_steps::readBpeOptions(const Json &model, TokenizerParts &parts)
{
    const Json *dropout = member(model, "dropout");
    if (dropout != nullptr && *dropout != 0)
        refuseTokenizer("tokenizer: model.dropout " + dropout->dump()
                        + " is not supported: tokens would be drawn by chance, only null and 0 are read");
    BpeOptions &options = parts.bpe;
    options.continuation = text(model, "continuing_subword_prefix");
    options.wordEnd = text(model, "end_of_word_suffix");
    options.ignoreMerges = optionalFlag(model, "ignore_merges");
    options.fuseUnknown = optionalFlag(model, "fuse_unk");
    options.byteFallback = optionalFlag(model, "byte_fallback");
    if (const std::string unknown = text(model, "unk_token"); !unknown.empty()) {
        options.unknown = parts.tokens.find(unknown);
        options.lackingUnknown = options.unknown < 0 ? unknown : std::string();
    }
}

std::vector<AddedToken> tokenizer_steps::readAddedTokens(const Json &root, std::size_t modelTokens, TokenTable &tokens,
                                                         std::vector<int> &outsideModel)
{
    const Json *list = member(root, "added_tokens");
    if (list == nullptr)
        return {};
    if (!list->is_array())
        refuseTokenizer("tokenizer: added_tokens must be a list");
    std::vector<AddedToken> added;
    int next = static_cast<int>(modelTokens);
    const std::int64_t limit = tokens.size() + static_cast<std::int64_t>(list->size()) + idSlack;
    for (std::size_t i = 0; i < list->size(); ++i) {
        AddedToken token = readAdded((*list)[i], i, limit);
        if (token.content.empty())
            continue;
        if (const int known = tokens.find(token.content); known >= 0) {
            token.id = known;
        } else if (token.id = next; tokens.has(next)) {
            refuseTokenizer("tokenizer: added token " + utf8::quoted(token.content) + " would have id "
                            + std::to_string(next) + ", the next one behind the " + std::to_string(modelTokens)
                            + " tokens of the model, which already is that of " + utf8::quoted(tokens.spelling(next)));
        } else {
            tokens.set(token.id, token.content);
            tokens.index(token.id);
            outsideModel.push_back(token.id);
        }
        next = std::max(next, token.id + 1);
        added.push_back(std::move(token));
    }
    return added;
}

std::unique_ptr<Tokenizer> makeTokenizer(std::string_view tokenizerJson, std::string_view configJson)
{
    TokenizerTexts texts;
    texts.tokenizer = tokenizerJson;
    texts.config = configJson;
    return makeTokenizer(texts);
}

std::unique_ptr<Tokenizer> makeTokenizer(const TokenizerTexts &texts)
{
    const TokenizerFile file = readTokenizerFile(texts.tokenizer);
    const Json config = texts.config.empty() ? Json() : readTokenizerConfig(texts.config);
    std::string kind;
    const Json &model = checkModel(file, kind);
    TokenizerParts parts;
    addVocabulary(file, parts.tokens);
    if (kind == "BPE") {
        tokenizer_steps::readBpeOptions(model, parts);
        parts.merges = resolveMerges(file, parts.bpe.continuation, parts.tokens);
    } else if (kind == "Unigram") {
        parts.unigram = readUnigram(file, model);
    } else if (kind == "WordPiece") {
        parts.wordPiece = readWordPiece(model);
    } else {
        parts.wordLevel = WordLevelOptions{needed(model, "unk_token"), {}};
    }
    std::vector<int> outsideModel;
    parts.added = readAddedTokens(file.rest, file.vocabulary.size(), parts.tokens, outsideModel);
    readMoreAdded(smallObject(texts.addedTokens, "added_tokens.json"), parts, outsideModel);
    if (parts.wordPiece)
        parts.wordPiece->outsideModel = outsideFlags(outsideModel, parts.tokens.size());
    if (parts.wordLevel)
        parts.wordLevel->outsideModel = outsideFlags(outsideModel, parts.tokens.size());
    parts.bpe.outsideModel = std::move(outsideModel);
    tokenizer_steps::read(file.rest, parts);
    setEnds(parts, config, smallObject(texts.specialTokens, "special_tokens_map.json"), texts.endOfGeneration);
    return makePipelineTokenizer(std::move(parts));
}

} // namespace engine
