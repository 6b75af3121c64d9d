// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/tokenizer_steps.h"

#include "engine/text/characters.h"
#include "engine/text/tokenizer_step_fields.h"
#include "engine/text/unicode_sets.h"
#include "engine/text/utf8.h"

#include <array>
#include <functional>
#include <utility>

namespace engine::tokenizer_steps {
namespace {

std::string typeOf(const Json &step, const std::string &place)
{
    if (!step.is_object())
        refuse(place + " must be an object");
    const Json *type = member(step, "type");
    if (type == nullptr || !type->is_string())
        refuse(place + ".type " + (type == nullptr ? "is missing" : "must be a string"));
    return type->get<std::string>();
}

/// Calls `read` for a step, or for each member of a Sequence, however deep; the file's own nesting limit bounds it.
void forEachStep(const Json &step, const std::string &place, const char *listKey,
                 const std::function<void(const Json &, const std::string &type)> &read)
{
    const std::string type = typeOf(step, place);
    if (type != "Sequence") {
        read(step, type);
        return;
    }
    const Json *list = member(step, listKey);
    if (list == nullptr || !list->is_array())
        refuse(place + "." + listKey + (list == nullptr ? " is missing" : " must be a list"));
    for (const Json &inner : *list)
        forEachStep(inner, place, listKey, read);
}

SplitBehavior readBehavior(const Json &step)
{
    constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> names{
        {{"Isolated", SplitBehavior::Isolated},
         {"Removed", SplitBehavior::Removed},
         {"Contiguous", SplitBehavior::Contiguous},
         {"MergedWithPrevious", SplitBehavior::MergedWithPrevious},
         {"MergedWithNext", SplitBehavior::MergedWithNext}}};
    const Json *value = member(step, "behavior");
    const std::string wanted = value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
    for (const auto &[name, behavior] : names) {
        if (name == wanted)
            return behavior;
    }
    refuse("pre_tokenizer.behavior " + utf8::quoted(wanted) + " is unknown");
}

std::size_t lengthOf(const Json &step)
{
    const Json *length = member(step, "length");
    if (length == nullptr || !length->is_number_integer() || *length < 1)
        refuse("pre_tokenizer.length must be an integer of at least 1, found "
               + (length == nullptr ? std::string("none") : length->dump()));
    return length->get<std::size_t>();
}

void readByteLevel(const Json &step, PreTokenizer &preTokenizer)
{
    if (flag(step, "add_prefix_space", true))
        preTokenizer.addPrefixSpace();
    if (flag(step, "use_regex", true))
        preTokenizer.addSplit(gpt2Split());
    preTokenizer.addByteLevel();
}

void readPreTokenizer(const Json &step, const std::string &type, TokenizerParts &parts)
{
    PreTokenizer &preTokenizer = parts.preTokenizer;
    if (type == "ByteLevel") {
        readByteLevel(step, preTokenizer);
    } else if (type == "Split") {
        preTokenizer.addSplit(patternOf(step, "pre_tokenizer"), readBehavior(step), flag(step, "invert", false));
    } else if (type == "Digits") {
        preTokenizer.addSplit(unicode_sets::isNumeric,
                              flag(step, "individual_digits", false) ? SplitBehavior::Isolated
                                                                     : SplitBehavior::Contiguous);
    } else if (type == "Punctuation") {
        preTokenizer.addSplit(unicode_sets::isPunctuation,
                              step.contains("behavior") ? readBehavior(step) : SplitBehavior::Isolated);
    } else if (type == "Metaspace") {
        preTokenizer.addMetaspace(metaspaceOf(step, "pre_tokenizer"));
    } else if (type == "WhitespaceSplit") {
        preTokenizer.addSplit(characters::isWhiteSpace, SplitBehavior::Removed);
    } else if (type == "Whitespace") {
        preTokenizer.addSplit(characters::isWhiteSpace, SplitBehavior::Removed);
        preTokenizer.addSplit(unicode_sets::isWordCharacter, SplitBehavior::Contiguous);
    } else if (type == "BertPreTokenizer") {
        preTokenizer.addSplit(characters::isWhiteSpace, SplitBehavior::Removed);
        preTokenizer.addSplit(unicode_sets::isPunctuation);
    } else if (type == "CharDelimiterSplit") {
        preTokenizer.addSplit(Regex(characterOf(step, "delimiter", "pre_tokenizer"), true), SplitBehavior::Removed);
    } else if (type == "FixedLength") {
        preTokenizer.addFixedLength(lengthOf(step));
    } else {
        refuse("pre_tokenizer " + utf8::quoted(type) + " is not supported");
    }
}

void checkId(const Json &id, const std::string &name, const TokenTable &tokens)
{
    if (!id.is_number_integer() || id < 0 || id >= tokens.size() || !tokens.has(id.get<int>()))
        refuse("post_processor: special token " + utf8::quoted(name) + " has id " + utf8::quoted(id.dump())
               + ", which is not in the vocabulary");
}

/// Ids of a special token that a template names.
std::vector<int> templateIds(const Json &step, const std::string &name, const TokenTable &tokens)
{
    const Json *table = member(step, "special_tokens");
    const Json *entry = table != nullptr && table->is_object() ? member(*table, name.c_str()) : nullptr;
    const Json *ids = entry != nullptr && entry->is_object() ? member(*entry, "ids") : nullptr;
    if (ids == nullptr || !ids->is_array())
        refuse("post_processor: special token " + utf8::quoted(name) + " is not defined in special_tokens");
    std::vector<int> result;
    for (const Json &id : *ids) {
        checkId(id, name, tokens);
        result.push_back(id.get<int>());
    }
    return result;
}

void readTemplate(const Json &step, TokenizerParts &parts)
{
    const Json *items = member(step, "single");
    if (items == nullptr || !items->is_array())
        refuse("post_processor.single must be a list");
    std::vector<int> prefix;
    std::vector<int> suffix;
    int texts = 0;
    for (const Json &item : *items) {
        const Json *special = item.is_object() ? member(item, "SpecialToken") : nullptr;
        if (special == nullptr) {
            if (!item.is_object() || member(item, "Sequence") == nullptr)
                refuse("post_processor.single: " + utf8::quoted(item.dump()) + " must be a SpecialToken or a Sequence");
            ++texts;
            continue;
        }
        const Json *name = special->is_object() ? member(*special, "id") : nullptr;
        if (name == nullptr || !name->is_string())
            refuse("post_processor.single: SpecialToken.id must be a string");
        const std::vector<int> ids = templateIds(step, name->get<std::string>(), parts.tokens);
        std::vector<int> &side = texts == 0 ? prefix : suffix;
        side.insert(side.end(), ids.begin(), ids.end());
    }
    if (texts != 1)
        refuse("post_processor.single must hold the text once, found it " + std::to_string(texts) + " times");
    parts.prefix.insert(parts.prefix.begin(), prefix.begin(), prefix.end());
    parts.suffix.insert(parts.suffix.end(), suffix.begin(), suffix.end());
}

/// The id of a [text, id] pair, as the post-processors of BERT and RoBERTa have them.
int pairId(const Json &step, const char *key, const TokenTable &tokens)
{
    const Json *pair = member(step, key);
    if (pair == nullptr || !pair->is_array() || pair->size() != 2 || !(*pair)[0].is_string())
        refuse(std::string("post_processor.") + key + " must be a pair of text and id");
    checkId((*pair)[1], (*pair)[0].get<std::string>(), tokens);
    return (*pair)[1].get<int>();
}

void readPostProcessor(const Json &step, const std::string &type, TokenizerParts &parts)
{
    if (type == "ByteLevel") // changes offsets only
        return;
    if (!parts.prefix.empty() || !parts.suffix.empty())
        refuse("post_processor " + utf8::quoted(type) + " behind another one that adds tokens is not supported");
    if (type == "TemplateProcessing") {
        readTemplate(step, parts);
    } else if (type == "RobertaProcessing" || type == "BertProcessing") {
        parts.prefix.insert(parts.prefix.begin(), pairId(step, "cls", parts.tokens));
        parts.suffix.push_back(pairId(step, "sep", parts.tokens));
    } else {
        refuse("post_processor " + utf8::quoted(type) + " is not supported");
    }
}

/// Whether the model may spell bytes itself, which is quicker.
bool takesBytes(const TokenizerParts &parts)
{
    const bool bpe = !parts.unigram && !parts.wordPiece && !parts.wordLevel;
    return bpe && !parts.bpe.byteFallback && parts.bpe.continuation.empty() && parts.bpe.wordEnd.empty();
}

} // namespace

void read(const Json &root, TokenizerParts &parts)
{
    using Reader = void (*)(const Json &, const std::string &, TokenizerParts &);
    const auto each = [&](const char *place, const char *listKey, Reader reader) {
        if (const Json *step = member(root, place))
            forEachStep(*step, place, listKey,
                        [&](const Json &inner, const std::string &type) { reader(inner, type, parts); });
    };
    each("normalizer", "normalizers", readNormalizer);
    each("pre_tokenizer", "pretokenizers", readPreTokenizer);
    parts.bpe.byteLevel = takesBytes(parts) && parts.preTokenizer.takeByteLevel();
    each("post_processor", "processors", readPostProcessor);
    each("decoder", "decoders", readDecoder);
    if (member(root, "decoder") == nullptr)
        parts.decoder.addSpaces();
}

} // namespace engine::tokenizer_steps
