// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/core/printable.h"
#include "engine/runtime/gguf_vocabulary.h"
#include "engine/text/character_map.h"
#include "engine/text/pretokenizer_table.h"

#include <algorithm>
#include <optional>

namespace engine {
namespace {

std::string typeOf(const Json &step)
{
    return step.is_object() ? textAt(step, "type") : std::string();
}

/// The steps under `place` of the file, sequences taken apart.
void collect(const Json &step, const char *listKey, std::vector<Json> &steps)
{
    if (typeOf(step) != "Sequence") {
        if (step.is_object())
            steps.push_back(step);
        return;
    }
    if (const auto list = step.find(listKey); list != step.end() && list->is_array()) {
        for (const Json &inner : *list)
            collect(inner, listKey, steps);
    }
}

std::vector<Json> stepsAt(const Json &tokenizer, const char *place, const char *listKey)
{
    std::vector<Json> steps;
    if (const auto found = tokenizer.find(place); found != tokenizer.end())
        collect(*found, listKey, steps);
    return steps;
}
std::vector<Json> normalizers(const Json &tokenizer)
{
    return stepsAt(tokenizer, "normalizer", "normalizers");
}
std::vector<Json> preTokenizers(const Json &tokenizer)
{
    return stepsAt(tokenizer, "pre_tokenizer", "pretokenizers");
}
std::vector<Json> decoders(const Json &tokenizer)
{
    return stepsAt(tokenizer, "decoder", "decoders");
}

std::string patternText(const Json &step, const char *kind)
{
    const auto pattern = step.find("pattern");
    return pattern != step.end() && pattern->is_object() ? textAt(*pattern, kind) : std::string();
}

bool isReplaceOf(const Json &step, const std::string &text, const std::string &content)
{
    return typeOf(step) == "Replace" && patternText(step, "String") == text && textAt(step, "content") == content;
}

/// The pattern whose matches a step makes words of their own; absent for other steps.
std::optional<std::string> splitPattern(const Json &step)
{
    const std::string type = typeOf(step);
    if (type == "Digits")
        return flagAt(step, "individual_digits") ? "\\p{N}" : "\\p{N}+";
    if (type == "Punctuation" && textAt(step, "behavior") == "Contiguous") // Falcon's, as GGUF readers have it
        return "[\\p{P}\\$\\+<=>\\^~\\|`]+";
    if (type != "Split")
        return std::nullopt;
    const std::string behavior = textAt(step, "behavior");
    const bool inverted = flagAt(step, "invert");
    const bool isolates = (behavior == "Isolated" && !inverted) || (behavior == "Removed" && inverted);
    const std::string pattern = patternText(step, "Regex");
    return isolates && !pattern.empty() ? std::optional(pattern) : std::nullopt;
}

void sayPreTokenizer(const Json &tokenizer, std::string_view architecture, GgufSteps &steps)
{
    std::vector<std::string> patterns;
    bool known = true;
    for (const Json &step : preTokenizers(tokenizer)) {
        if (typeOf(step) == "ByteLevel") {
            if (flagAt(step, "use_regex", true))
                patterns.emplace_back(gpt2Pattern());
            if (flagAt(step, "add_prefix_space", true))
                steps.unsaid.emplace_back("the space in front of each text (add_prefix_space)");
        } else if (const auto pattern = splitPattern(step)) {
            patterns.push_back(*pattern);
        } else {
            known = false;
        }
    }
    if (known)
        steps.pre = preTokenizerName(patterns, flagAt(tokenizer.at("model"), "ignore_merges"), architecture);
    if (steps.pre.empty())
        steps.unsaid.emplace_back("the splits of the pre_tokenizer");
}

bool isPlainSplitAtSpaces(const Json &step)
{
    return typeOf(step) == "Split" && patternText(step, "String") == " "; // spaces are marks by then
}

/// What Metaspace and Prepend say of a mark in front, in `steps`; false for other steps.
bool sayMetaspace(const Json &step, GgufSteps &steps)
{
    if (typeOf(step) != "Metaspace")
        return false;
    const std::string scheme = textAt(step, "prepend_scheme");
    const bool otherwise = flagAt(step, "add_prefix_space", true);
    steps.addsSpacePrefix = scheme.empty() ? otherwise : scheme != "never";
    if (steps.addsSpacePrefix && !steps.removesExtraSpaces)
        steps.unsaid.emplace_back("that no space goes in front of one (Metaspace)");
    if (scheme == "first")
        steps.unsaid.emplace_back("the space in front of the first word only (Metaspace with prepend_scheme first)");
    return true;
}

void sayDecoders(const Json &tokenizer, GgufSteps &steps)
{
    bool strips = false;
    for (const Json &step : decoders(tokenizer)) {
        const std::string type = typeOf(step);
        if (type == "Metaspace")
            strips = textAt(step, "prepend_scheme") != "never" && flagAt(step, "add_prefix_space", true);
        else if (type == "Strip" && textAt(step, "content") == " ")
            strips = true;
        else if (!isReplaceOf(step, metaspaceMark, " ") && type != "ByteFallback" && type != "Fuse")
            steps.unsaid.push_back("the decoder " + type);
    }
    if (strips != steps.addsSpacePrefix)
        steps.unsaid.emplace_back(strips ? "that decoded text loses a space in front"
                                         : "that decoded text keeps a space in front");
}

} // namespace

GgufSteps byteLevelSteps(const Json &tokenizer, std::string_view architecture)
{
    GgufSteps steps;
    for (const Json &step : normalizers(tokenizer))
        steps.unsaid.push_back("the normalizer " + typeOf(step));
    sayPreTokenizer(tokenizer, architecture, steps);
    for (const Json &step : decoders(tokenizer)) {
        if (typeOf(step) != "ByteLevel")
            steps.unsaid.push_back("the decoder " + typeOf(step));
    }
    return steps;
}

GgufSteps sentencePieceSteps(const Json &tokenizer)
{
    GgufSteps steps;
    bool marks = false;
    for (const Json &step : normalizers(tokenizer)) {
        if (typeOf(step) == "Prepend" && textAt(step, "prepend") == metaspaceMark)
            steps.addsSpacePrefix = true;
        else if (isReplaceOf(step, " ", metaspaceMark))
            marks = true;
        else
            steps.unsaid.push_back("the normalizer " + typeOf(step));
    }
    for (const Json &step : preTokenizers(tokenizer)) {
        if (sayMetaspace(step, steps)) {
            marks = true;
            if (flagAt(step, "split", true))
                steps.unsaid.emplace_back("that words end before each space (Metaspace with split)");
        } else if (!marks || !isPlainSplitAtSpaces(step)) {
            steps.unsaid.push_back("the pre_tokenizer " + typeOf(step));
        }
    }
    if (!marks)
        steps.unsaid.emplace_back("that spaces stay spaces");
    sayDecoders(tokenizer, steps);
    return steps;
}

GgufSteps unigramSteps(const Json &tokenizer)
{
    GgufSteps steps;
    bool marks = false;
    bool stripsEnd = false;
    for (const Json &step : normalizers(tokenizer)) {
        const std::string type = typeOf(step);
        const std::string map = textAt(step, "precompiled_charsmap");
        if (type == "Precompiled" && steps.characterMap.empty() && !steps.removesExtraSpaces)
            steps.characterMap = CharacterMap::bytesOfBase64(map);
        else if (type == "Replace" && patternText(step, "Regex") == " {2,}"
                 && (textAt(step, "content") == " " || textAt(step, "content") == metaspaceMark))
            steps.removesExtraSpaces = true;
        else if (type == "Strip" && !flagAt(step, "strip_left", true) && flagAt(step, "strip_right", true))
            stripsEnd = true;
        else
            steps.unsaid.push_back("the normalizer " + type);
    }
    for (const Json &step : preTokenizers(tokenizer)) {
        if (typeOf(step) == "WhitespaceSplit")
            steps.removesExtraSpaces = stripsEnd = true;
        else if (sayMetaspace(step, steps))
            marks = true;
        else
            steps.unsaid.push_back("the pre_tokenizer " + typeOf(step));
    }
    if (!marks)
        steps.unsaid.emplace_back("that spaces stay spaces");
    if (stripsEnd != steps.removesExtraSpaces)
        steps.unsaid.emplace_back("what becomes of spaces at the end of a text");
    sayDecoders(tokenizer, steps);
    return steps;
}

std::vector<std::string> unsaidTokenFlags(const Json &tokenizer, bool phi3)
{
    std::vector<std::string> unsaid;
    const auto list = tokenizer.find("added_tokens");
    if (list == tokenizer.end() || !list->is_array())
        return unsaid;
    for (const char *flag : {"lstrip", "rstrip", "single_word"}) {
        for (const Json &token : *list) {
            const std::string content = textAt(token, "content");
            const bool strips = phi3 && std::string_view(flag) == "rstrip" && content != "<s>" && content != "<unk>"
                && content != "<|endoftext|>";
            if (flagAt(token, flag) == strips)
                continue;
            unsaid.push_back(std::string(flag) + " of the token " + inQuotes(content));
            break;
        }
    }
    return unsaid;
}

} // namespace engine
