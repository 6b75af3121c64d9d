// SPDX-License-Identifier: GPL-3.0-or-later
// Steps that change text: normalizers before it is cut, decoders behind.
#include "engine/text/tokenizer_step_fields.h"
#include "engine/text/utf8.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace engine::tokenizer_steps {
namespace {

void readNormalizerReplace(const Json &step, Normalizer &normalizer)
{
    std::string content = textOf(step, "content", "normalizer");
    if (std::optional<std::string> literal = literalOf(step, "normalizer"); literal && !literal->empty())
        normalizer.addReplace(std::move(*literal), std::move(content));
    else
        normalizer.addReplace(patternOf(step, "normalizer"), std::move(content));
}

std::size_t countOf(const Json &step, const char *key)
{
    const Json *value = member(step, key);
    if (value == nullptr)
        return 0;
    if (!value->is_number_integer() || *value < 0)
        refuse(std::string("decoder.") + key + " must be a count, found " + value->dump());
    return static_cast<std::size_t>(
        std::min<std::uint64_t>(value->get<std::uint64_t>(), std::numeric_limits<std::uint32_t>::max()));
}

void readStrip(const Json &step, TokenDecoder &decoder)
{
    const std::string content = characterOf(step, "content", "decoder");
    decoder.addStrip(utf8::decode(content, 0).code, countOf(step, "start"), countOf(step, "stop"));
}

void readDecoderReplace(const Json &step, TokenDecoder &decoder)
{
    std::string content = textOf(step, "content", "decoder");
    if (std::optional<std::string> literal = literalOf(step, "decoder"); literal && !literal->empty())
        decoder.addReplace(std::move(*literal), std::move(content));
    else
        decoder.addReplace(patternOf(step, "decoder"), std::move(content));
}

BertNormalization bertOf(const Json &step)
{
    BertNormalization rule;
    rule.cleansText = flag(step, "clean_text", true);
    rule.partsChinese = flag(step, "handle_chinese_chars", true);
    rule.lowercases = flag(step, "lowercase", true);
    rule.stripsAccents = flag(step, "strip_accents", rule.lowercases);
    return rule;
}

} // namespace

void readNormalizer(const Json &step, const std::string &type, TokenizerParts &parts)
{
    constexpr std::array<std::pair<std::string_view, NormalForm>, 4> forms{
        {{"NFC", NormalForm::Nfc}, {"NFD", NormalForm::Nfd}, {"NFKC", NormalForm::Nfkc}, {"NFKD", NormalForm::Nfkd}}};
    const auto form = std::find_if(forms.begin(), forms.end(), [&](const auto &row) { return row.first == type; });
    Normalizer &normalizer = parts.normalizer;
    if (form != forms.end())
        normalizer.addForm(form->second);
    else if (type == "Lowercase")
        normalizer.addLowercase();
    else if (type == "StripAccents")
        normalizer.addStripAccents();
    else if (type == "Nmt")
        normalizer.addNmt();
    else if (type == "BertNormalizer")
        normalizer.addBert(bertOf(step));
    else if (type == "ByteLevel")
        normalizer.addByteLevel();
    else if (type == "Strip")
        normalizer.addStrip(flag(step, "strip_left", true), flag(step, "strip_right", true));
    else if (type == "Prepend")
        normalizer.addPrepend(textOf(step, "prepend", "normalizer"));
    else if (type == "Replace")
        readNormalizerReplace(step, normalizer);
    else if (type == "Precompiled")
        normalizer.addCharacterMap(CharacterMap::fromBase64(
            member(step, "precompiled_charsmap") != nullptr ? textOf(step, "precompiled_charsmap", "normalizer") : ""));
    else
        refuse("normalizer " + utf8::quoted(type) + " is not supported");
}

void readDecoder(const Json &step, const std::string &type, TokenizerParts &parts)
{
    TokenDecoder &decoder = parts.decoder;
    if (type == "Fuse") {
        decoder.addFuse();
    } else if (type == "Strip") {
        readStrip(step, decoder);
    } else if (type == "Metaspace") {
        const Metaspace rule = metaspaceOf(step, "decoder");
        decoder.addMetaspace(rule.mark, rule.prepend != Metaspace::Prepend::Never);
    } else if (type == "ByteLevel") {
        decoder.addByteLevel();
    } else if (type == "Replace") {
        readDecoderReplace(step, decoder);
    } else if (type == "ByteFallback") {
        decoder.addByteFallback();
    } else if (type == "WordPiece") {
        decoder.addWordPiece(textOf(step, "prefix", "decoder"), flag(step, "cleanup", true));
    } else if (type == "BPEDecoder") {
        decoder.addWordEnd(textOf(step, "suffix", "decoder"));
    } else if (type == "CTC") {
        decoder.addCtc(textOf(step, "pad_token", "decoder"), textOf(step, "word_delimiter_token", "decoder"),
                       flag(step, "cleanup", true));
    } else {
        refuse("decoder " + utf8::quoted(type) + " is not supported");
    }
}

} // namespace engine::tokenizer_steps
