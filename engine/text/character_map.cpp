// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/character_map.h"

#include "engine/api/error.h"
#include "engine/text/utf8.h"

#include <utf8proc.h>

#include <array>

namespace engine {
namespace {

constexpr std::size_t longestCluster = 5; // bytes of a cluster that is looked up whole

[[noreturn]] void refuseMap(const std::string &fault)
{
    throw Error(ErrorCode::Refused, "tokenizer: normalizer.precompiled_charsmap, a character map, " + fault);
}

std::array<int, 256> makeDigits()
{
    constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::array<int, 256> values;
    values.fill(-1);
    for (std::size_t i = 0; i < digits.size(); ++i)
        values[static_cast<std::uint8_t>(digits[i])] = static_cast<int>(i);
    return values;
}

std::string decodeBase64(std::string_view text)
{
    const std::array<int, 256> values = makeDigits();
    while (text.ends_with('='))
        text.remove_suffix(1);
    std::string out;
    out.reserve(text.size() / 4 * 3 + 3);
    std::uint32_t bits = 0;
    int held = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const int value = values[static_cast<std::uint8_t>(text[i])];
        if (value < 0)
            refuseMap("is not base64 at character " + std::to_string(i) + ": " + utf8::quoted(text.substr(i, 1)));
        bits = bits << 6U | static_cast<std::uint32_t>(value);
        held += 6;
        if (held >= 8) {
            held -= 8;
            out.push_back(static_cast<char>(bits >> static_cast<unsigned>(held) & 0xFFU));
        }
    }
    return out;
}

std::uint32_t readU32(std::string_view bytes, std::size_t at)
{
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < sizeof value; ++i)
        value |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(bytes[at + i])) << 8U * static_cast<unsigned>(i);
    return value;
}

// The fields of a unit, as the double-array trie of S. Yata's darts-clone packs them.
bool hasLeaf(std::uint32_t unit)
{
    return (unit >> 8U & 1U) != 0;
}
std::uint32_t valueOf(std::uint32_t unit)
{
    return unit & 0x7FFFFFFFU;
}
std::uint32_t labelOf(std::uint32_t unit)
{
    return unit & (0x80000000U | 0xFFU);
}
std::uint32_t offsetOf(std::uint32_t unit)
{
    return unit >> 10U << ((unit & 0x200U) >> 6U);
}

/// Length of the grapheme cluster at the front of `text`.
std::size_t clusterBytes(std::string_view text)
{
    if (utf8::isAscii(text[0]) && text[0] != '\r' && (text.size() == 1 || utf8::isAscii(text[1])))
        return 1;
    utf8proc_int32_t state = 0;
    utf8::Character last = utf8::decode(text, 0);
    auto bytes = static_cast<std::size_t>(last.bytes);
    while (bytes < text.size()) {
        const utf8::Character next = utf8::decode(text, bytes);
        if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last.code),
                                             static_cast<utf8proc_int32_t>(next.code), &state))
            break;
        bytes += static_cast<std::size_t>(next.bytes);
        last = next;
    }
    return bytes;
}

} // namespace

std::string CharacterMap::bytesOfBase64(std::string_view text)
{
    return decodeBase64(text);
}

CharacterMap CharacterMap::fromBase64(std::string_view text)
{
    return text.empty() ? CharacterMap() : fromBytes(decodeBase64(text));
}

CharacterMap CharacterMap::fromBytes(std::string_view bytes)
{
    CharacterMap map;
    if (bytes.size() < sizeof(std::uint32_t))
        refuseMap("has " + std::to_string(bytes.size()) + " bytes, too few");
    const std::size_t trieBytes = readU32(bytes, 0);
    const std::size_t begin = sizeof(std::uint32_t);
    if (trieBytes % sizeof(std::uint32_t) != 0 || trieBytes > bytes.size() - begin)
        refuseMap("says that its trie has " + std::to_string(trieBytes) + " bytes, but "
                  + std::to_string(bytes.size() - begin) + " follow");
    for (std::size_t at = 0; at < trieBytes; at += sizeof(std::uint32_t))
        map.m_units.push_back(readU32(bytes, begin + at));
    map.m_texts = bytes.substr(begin + trieBytes);
    if (!utf8::isValid(map.m_texts))
        refuseMap("holds replacements that are not UTF-8");
    return map;
}

CharacterMap::Found CharacterMap::find(std::string_view text) const
{
    if (m_units.empty())
        return {};
    std::size_t at = offsetOf(m_units[0]);
    for (const char c : text) {
        const auto byte = static_cast<std::uint8_t>(c);
        at ^= byte;
        if (byte == 0 || at >= m_units.size() || labelOf(m_units[at]) != byte)
            return {};
        const std::uint32_t unit = m_units[at];
        at ^= offsetOf(unit);
        if (!hasLeaf(unit) || at >= m_units.size())
            continue;
        const std::size_t begin = valueOf(m_units[at]);
        if (begin >= m_texts.size() || (static_cast<std::uint8_t>(m_texts[begin]) & 0xC0U) == 0x80)
            return {};
        const std::string_view rest = std::string_view(m_texts).substr(begin);
        return {true, rest.substr(0, rest.find('\0'))};
    }
    return {};
}

void CharacterMap::appendCluster(std::string_view cluster, std::string &out) const
{
    if (cluster.size() <= longestCluster) {
        if (const Found found = find(cluster); found.any) {
            out += found.text;
            return;
        }
    }
    for (std::size_t position = 0; position < cluster.size();) {
        const std::string_view bytes =
            cluster.substr(position, static_cast<std::size_t>(utf8::decode(cluster, position).bytes));
        const Found found = find(bytes);
        out += found.any ? found.text : bytes;
        position += bytes.size();
    }
}

void CharacterMap::append(std::string_view text, std::string &out, std::size_t limit) const
{
    out.reserve(out.size() + text.size() + text.size() / 8);
    while (!text.empty() && out.size() <= limit) {
        const std::size_t bytes = clusterBytes(text);
        appendCluster(text.substr(0, bytes), out);
        text.remove_prefix(bytes);
    }
}

} // namespace engine
