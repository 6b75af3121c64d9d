// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/normalizer.h"

#include "engine/api/error.h"
#include "engine/text/bpe.h"
#include "engine/text/characters.h"
#include "engine/text/unicode_sets.h"
#include "engine/text/utf8.h"

#include <memory>
#include <utility>

namespace engine {
namespace {

// No normal form or map of a real tokenizer makes a character more than 18 times as long.
constexpr std::size_t largestGrowth = 64;
constexpr std::size_t freeGrowth = 1U << 16U; // bytes

/// Calls `use` with the code and the bytes of every character.
template<typename Use> void forEachCharacter(std::string_view text, const Use &use)
{
    for (std::size_t position = 0; position < text.size();) {
        const utf8::Character character = utf8::decode(text, position);
        const auto bytes = static_cast<std::size_t>(character.bytes);
        use(character.code, text.substr(position, bytes));
        position += bytes;
    }
}

std::string_view stripped(std::string_view text, bool left, bool right)
{
    std::size_t begin = text.size();
    std::size_t end = 0;
    forEachCharacter(text, [&](char32_t code, std::string_view bytes) {
        if (characters::isWhiteSpace(code))
            return;
        const auto at = static_cast<std::size_t>(bytes.data() - text.data());
        begin = std::min(begin, at);
        end = at + bytes.size();
    });
    begin = left ? begin : 0;
    end = right ? end : text.size();
    return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

// What becomes of one character.

void lowercase(char32_t code, std::string_view, std::string &out)
{
    characters::appendLowercase(out, code);
}

void withoutMark(char32_t code, std::string_view bytes, std::string &out)
{
    if (!unicode_sets::isCombiningMark(code))
        out += bytes;
}

void withoutNonspacingMark(char32_t code, std::string_view bytes, std::string &out)
{
    if (!unicode_sets::isNonspacingMark(code))
        out += bytes;
}

void cleaned(char32_t code, std::string_view bytes, std::string &out)
{
    if (!unicode_sets::isOther(code))
        out += characters::isWhiteSpace(code) ? " " : bytes;
}

void parted(char32_t code, std::string_view bytes, std::string &out)
{
    const std::string_view space = characters::isChinese(code) ? " " : "";
    out.append(space).append(bytes).append(space);
}

/// Source: google/sentencepiece, src/builder.cc, the rules "nmt", as huggingface/tokenizers has them.
void nmt(char32_t code, std::string_view bytes, std::string &out)
{
    const bool dropped = (code >= 1 && code <= 8) || code == 0xB || (code >= 0xE && code <= 0x1F) || code == 0x7F
        || code == 0x8F || code == 0x9F;
    if (dropped)
        return;
    const bool space = (code >= '\t' && code <= '\r') || code == 0x1680 || (code >= 0x200B && code <= 0x200F)
        || code == 0x2028 || code == 0x2029 || code == 0x2581 || code == 0xFEFF || code == 0xFFFD;
    out += space ? " " : bytes;
}

} // namespace

void Normalizer::Output::check() const
{
    if (text.size() > limit)
        throw Error(ErrorCode::Refused,
                    "normalizer: the text grows without measure, to more than the limit of " + std::to_string(limit)
                        + " bytes");
}

/// What stood first is lost with several characters that are replaced, or with one that nothing replaces.
void Normalizer::Output::replaceStart(std::string_view gone, std::string_view content)
{
    const std::size_t first = gone.empty() ? 0 : static_cast<std::size_t>(utf8::decode(gone, 0).bytes);
    keepsStart = keepsStart && (gone.empty() || (gone.size() == first && !content.empty()));
}

void Normalizer::addForm(NormalForm form)
{
    m_steps.emplace_back([form](std::string_view text, Output &out) { return appendNormalForm(text, form, out.text); });
}

void Normalizer::addCharacters(CharacterRule rule)
{
    m_steps.emplace_back([rule](std::string_view text, Output &out) {
        out.text.reserve(text.size() + text.size() / 8);
        forEachCharacter(text, [&](char32_t code, std::string_view bytes) {
            rule(code, bytes, out.text);
            out.keepsStart = out.keepsStart && !out.text.empty();
        });
        return true;
    });
}

void Normalizer::addLowercase()
{
    addCharacters(lowercase);
}

void Normalizer::addStripAccents()
{
    addCharacters(withoutMark);
}

void Normalizer::addNmt()
{
    addCharacters(nmt);
}

void Normalizer::addBert(const BertNormalization &rule)
{
    if (rule.cleansText)
        addCharacters(cleaned);
    if (rule.partsChinese)
        addCharacters(parted);
    if (rule.stripsAccents) {
        addForm(NormalForm::Nfd);
        addCharacters(withoutNonspacingMark);
    }
    if (rule.lowercases)
        addCharacters(lowercase);
}

void Normalizer::addByteLevel()
{
    m_steps.emplace_back([](std::string_view text, Output &out) {
        out.text = byte_level::spell(text);
        return true;
    });
}

void Normalizer::addStrip(bool left, bool right)
{
    m_steps.emplace_back([=](std::string_view text, Output &out) {
        out.text = stripped(text, left, right);
        out.keepsStart = out.keepsStart && text.starts_with(out.text);
        return true;
    });
}

void Normalizer::addPrepend(std::string content)
{
    m_steps.emplace_back([content = std::move(content)](std::string_view text, Output &out) {
        if (text.empty())
            return false;
        out.text.reserve(content.size() + text.size());
        out.text.append(content).append(text);
        out.check();
        return true;
    });
}

void Normalizer::addReplace(std::string wanted, std::string content)
{
    m_steps.emplace_back(
        [wanted = std::move(wanted), content = std::move(content)](std::string_view text, Output &out) {
            std::size_t found = wanted.empty() ? std::string_view::npos : text.find(wanted);
            if (found == std::string_view::npos)
                return false;
            out.text.reserve(text.size() + text.size() / 2);
            if (found == 0)
                out.replaceStart(wanted, content);
            std::size_t done = 0;
            for (; found != std::string_view::npos; found = text.find(wanted, done)) {
                out.text.append(text.substr(done, found - done)).append(content);
                out.check();
                done = found + wanted.size();
            }
            out.text.append(text.substr(done));
            return true;
        });
}

void Normalizer::addReplace(Regex pattern, std::string content)
{
    // Shared because a std::function must be copyable.
    const auto shared = std::make_shared<const Regex>(std::move(pattern));
    m_steps.emplace_back([shared, content = std::move(content)](std::string_view text, Output &out) {
        out.scratch.prepare(text);
        std::size_t done = 0;
        forEachMatch(*shared, text, out.scratch, [&](const Regex::Match &match) {
            if (match.begin == 0)
                out.replaceStart(text.substr(0, match.end), content);
            out.text.append(text.substr(done, match.begin - done)).append(content);
            out.check();
            done = match.end;
        });
        out.text.append(text.substr(done));
        return true;
    });
}

void Normalizer::addCharacterMap(CharacterMap map)
{
    m_steps.emplace_back([map = std::move(map)](std::string_view text, Output &out) {
        map.append(text, out.text, out.limit);
        out.check();
        return true;
    });
}

std::string_view Normalizer::apply(std::string_view text, std::string &storage, RegexScratch &scratch,
                                   bool *keepsStart) const
{
    if (keepsStart != nullptr)
        *keepsStart = true;
    if (m_steps.empty())
        return text;
    Output out{{}, text.size() * largestGrowth + freeGrowth, scratch};
    std::string_view current = text;
    for (const Step &step : m_steps) {
        out.text.clear();
        if (!step(current, out))
            continue;
        storage.swap(out.text);
        current = storage;
    }
    if (keepsStart != nullptr)
        *keepsStart = out.keepsStart;
    return current;
}

} // namespace engine
