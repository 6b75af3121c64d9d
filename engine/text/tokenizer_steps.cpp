// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/tokenizer_steps.h"

#include "engine/text/tokenizer_step_fields.h"
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

// Letters here are what Unicode calls alphabetic, unlike in the patterns that files bring along.
constexpr const char *wordsAndSymbols =
    R"re([\p{Alphabetic}\p{L}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}]+|[^\p{Alphabetic}\p{L}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}\s]+)re";
constexpr const char *punctuation = "[\\p{P}$+<=>^`|~]";

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

void checkFixedLength(const Json &step)
{
    const Json *length = member(step, "length");
    if (length == nullptr || !length->is_number_integer() || *length < 1)
        refuse("pre_tokenizer.length must be an integer of at least 1, found "
               + (length == nullptr ? std::string("none") : length->dump()));
}

void readPreTokenizer(const Json &step, const std::string &type, TokenizerParts &parts)
{
    if (type == "ByteLevel") {
        parts.bpe.byteLevel = true;
        if (flag(step, "add_prefix_space", true))
            parts.preTokenizer.addPrefixSpace();
        if (flag(step, "use_regex", true))
            parts.preTokenizer.addSplit(gpt2Split());
        return;
    }
    if (parts.bpe.byteLevel)
        refuse("pre_tokenizer " + utf8::quoted(type) + " behind ByteLevel is not supported");
    if (type == "Split") {
        parts.preTokenizer.addSplit(patternOf(step, "pre_tokenizer"), readBehavior(step), flag(step, "invert", false));
    } else if (type == "Digits") {
        parts.preTokenizer.addSplit(Regex(flag(step, "individual_digits", false) ? "\\p{N}" : "\\p{N}+"));
    } else if (type == "Punctuation") {
        parts.preTokenizer.addSplit(Regex(punctuation),
                                    step.contains("behavior") ? readBehavior(step) : SplitBehavior::Isolated);
    } else if (type == "Metaspace") {
        parts.preTokenizer.addMetaspace(metaspaceOf(step, "pre_tokenizer"));
    } else if (type == "WhitespaceSplit") {
        parts.preTokenizer.addSplit(Regex("\\s"), SplitBehavior::Removed);
    } else if (type == "Whitespace") {
        parts.preTokenizer.addSplit(Regex(wordsAndSymbols), SplitBehavior::Removed, true);
    } else if (type == "BertPreTokenizer") {
        parts.preTokenizer.addSplit(Regex("\\s"), SplitBehavior::Removed);
        parts.preTokenizer.addSplit(Regex(punctuation));
    } else {
        if (type == "FixedLength")
            checkFixedLength(step);
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
    if (type == "TemplateProcessing") {
        readTemplate(step, parts);
    } else if (type == "RobertaProcessing" || type == "BertProcessing") {
        parts.prefix.insert(parts.prefix.begin(), pairId(step, "cls", parts.tokens));
        parts.suffix.push_back(pairId(step, "sep", parts.tokens));
    } else {
        refuse("post_processor " + utf8::quoted(type) + " is not supported");
    }
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
    parts.bpe.byteLevel = false;
    each("pre_tokenizer", "pretokenizers", readPreTokenizer);
    each("post_processor", "processors", readPostProcessor);
    if (member(root, "decoder") == nullptr)
        refuse("decoder is missing; tokens cannot be joined without one");
    each("decoder", "decoders", readDecoder);
}

} // namespace engine::tokenizer_steps
