// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/normalizer.h"

#include "engine/api/error.h"
#include "engine/text/characters.h"
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

} // namespace

void Normalizer::Output::check() const
{
    if (text.size() > limit)
        throw Error(ErrorCode::Refused,
                    "normalizer: the text grows without measure, to more than the limit of " + std::to_string(limit)
                        + " bytes");
}

void Normalizer::addForm(NormalForm form)
{
    m_steps.emplace_back([form](std::string_view text, Output &out) { return appendNormalForm(text, form, out.text); });
}

void Normalizer::addLowercase()
{
    m_steps.emplace_back([](std::string_view text, Output &out) {
        forEachCharacter(text, [&](char32_t code, std::string_view) { characters::appendLowercase(out.text, code); });
        return true;
    });
}

void Normalizer::addStripAccents()
{
    m_steps.emplace_back([](std::string_view text, Output &out) {
        forEachCharacter(text, [&](char32_t code, std::string_view bytes) {
            if (code < 0x80 || !characters::isMark(code))
                out.text += bytes;
        });
        return true;
    });
}

void Normalizer::addStrip(bool left, bool right)
{
    m_steps.emplace_back([=](std::string_view text, Output &out) {
        out.text = stripped(text, left, right);
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

std::string_view Normalizer::apply(std::string_view text, std::string &storage, RegexScratch &scratch) const
{
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
    return current;
}

} // namespace engine
