// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/merge_cuts.h"

#include "engine/text/utf8.h"

#include <bit>

namespace engine {
namespace {

constexpr std::size_t asciiPairs = 128 * 128; // these have slots of their own
constexpr std::size_t slotsPerToken = 16;

struct Step {
    char32_t code = 0;
    std::uint32_t bytes = 1;
};

/// The character at `at`. The space mark, which stands in every word, shares the slots of NUL.
Step stepAt(std::string_view text, std::size_t at)
{
    const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[at + i]); };
    if (byte(0) < 0x80)
        return {byte(0), 1};
    if (byte(0) == 0xE2 && at + 2 < text.size() && byte(1) == 0x96 && byte(2) == 0x81)
        return {0, 3};
    const utf8::Character character = utf8::decode(text, at);
    return {character.code, static_cast<std::uint32_t>(character.bytes)};
}

} // namespace

MergeCuts::MergeCuts(const TokenTable &tokens, const std::vector<int> &ids)
    : m_hashMask(std::bit_ceil(ids.size() * slotsPerToken + 64) - 1)
{
    m_bits.resize((asciiPairs + m_hashMask + 1) / 64);
    for (const int id : ids) {
        const std::string_view spelling = tokens.spelling(id);
        if (spelling.empty())
            continue;
        Step last = stepAt(spelling, 0);
        for (std::size_t at = last.bytes; at < spelling.size();) {
            const Step next = stepAt(spelling, at);
            const std::size_t slot = slotOf(last.code, next.code);
            m_bits[slot / 64] |= 1ULL << slot % 64;
            at += next.bytes;
            last = next;
        }
    }
}

std::size_t MergeCuts::slotOf(char32_t left, char32_t right) const
{
    if (left < 0x80 && right < 0x80)
        return left * 128 + right;
    const std::uint64_t pair = static_cast<std::uint64_t>(left) << 32U | right;
    return asciiPairs + ((pair * 0x9E3779B97F4A7C15ULL) >> 32U & m_hashMask); // Fibonacci hashing
}

bool MergeCuts::joins(char32_t left, char32_t right) const
{
    const std::size_t slot = slotOf(left, right);
    return (m_bits[slot / 64] >> slot % 64 & 1U) != 0;
}

void MergeCuts::cut(std::string_view text, std::span<const std::uint32_t> begins, std::span<const std::uint32_t> ends,
                    std::vector<std::uint32_t> &cutBegins, std::vector<std::uint32_t> &cutEnds) const
{
    cutBegins.reserve(text.size() / 6 + ends.size());
    cutEnds.reserve(text.size() / 6 + ends.size());
    for (std::size_t i = 0; i < ends.size(); ++i) {
        cutBegins.push_back(begins[i]);
        Step last = stepAt(text, begins[i]);
        for (std::uint32_t at = begins[i] + last.bytes; at < ends[i];) {
            const Step next = stepAt(text, at);
            if (!joins(last.code, next.code)) {
                cutEnds.push_back(at);
                cutBegins.push_back(at);
            }
            at += next.bytes;
            last = next;
        }
        cutEnds.push_back(ends[i]);
    }
}

} // namespace engine
