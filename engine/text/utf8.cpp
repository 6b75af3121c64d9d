// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/utf8.h"

#include <algorithm>

#include <cstdint>
#include <cstring>

namespace engine::utf8 {
namespace {

constexpr char32_t replacement = 0xFFFD;

/// What the first byte of a character says: total length (0 = no first byte) and the range of the second byte.
struct Lead {
    int bytes;
    std::uint8_t low;
    std::uint8_t high;
};

Lead lead(std::uint8_t byte)
{
    if (byte < 0x80)
        return {1, 0, 0};
    if (byte < 0xC2 || byte > 0xF4)
        return {0, 0, 0};
    if (byte < 0xE0)
        return {2, 0x80, 0xBF};
    if (byte < 0xF0)
        return {3, static_cast<std::uint8_t>(byte == 0xE0 ? 0xA0 : 0x80),
                static_cast<std::uint8_t>(byte == 0xED ? 0x9F : 0xBF)};
    return {4, static_cast<std::uint8_t>(byte == 0xF0 ? 0x90 : 0x80),
            static_cast<std::uint8_t>(byte == 0xF4 ? 0x8F : 0xBF)};
}

/// Length of the run of ASCII bytes from `position`.
std::size_t asciiRun(std::string_view text, std::size_t position)
{
    std::size_t end = position;
    for (std::uint64_t word; end + sizeof word <= text.size(); end += sizeof word) {
        std::memcpy(&word, text.data() + end, sizeof word);
        if ((word & 0x8080808080808080U) != 0)
            break;
    }
    while (end < text.size() && static_cast<std::uint8_t>(text[end]) < 0x80)
        ++end;
    return end - position;
}

/// Appends `text` to `out` with invalid parts replaced; stops before a cut end and returns where.
std::size_t appendRepaired(std::string_view text, std::string &out)
{
    std::size_t position = 0;
    while (position < text.size()) {
        if (const std::size_t run = asciiRun(text, position); run > 0) {
            out.append(text.substr(position, run));
            position += run;
            continue;
        }
        const Character character = decode(text, position);
        if (character.cut)
            break;
        const auto bytes = static_cast<std::size_t>(character.bytes);
        if (character.valid)
            out.append(text.substr(position, bytes));
        else
            append(out, replacement);
        position += bytes;
    }
    return position;
}

} // namespace

Character decode(std::string_view text, std::size_t position)
{
    const auto at = [&](std::size_t index) { return static_cast<std::uint8_t>(text[index]); };
    const std::uint8_t first = at(position);
    const Lead shape = lead(first);
    if (shape.bytes == 0)
        return {replacement, 1, false, false};
    if (shape.bytes == 1)
        return {first, 1, true, false};
    char32_t code = first & (0x7FU >> static_cast<unsigned>(shape.bytes));
    for (int taken = 1; taken < shape.bytes; ++taken) {
        const std::size_t index = position + static_cast<std::size_t>(taken);
        if (index >= text.size())
            return {replacement, taken, false, true};
        const std::uint8_t byte = at(index);
        const std::uint8_t low = taken == 1 ? shape.low : 0x80;
        const std::uint8_t high = taken == 1 ? shape.high : 0xBF;
        if (byte < low || byte > high)
            return {replacement, taken, false, false};
        code = (code << 6U) | (byte & 0x3FU);
    }
    return {code, shape.bytes, true, false};
}

std::size_t length(std::string_view text)
{
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<std::uint8_t>(c) & 0xC0U) != 0x80; }));
}

bool isValid(std::string_view text)
{
    std::size_t position = 0;
    while (position < text.size()) {
        if (const std::size_t run = asciiRun(text, position); run > 0) {
            position += run;
            continue;
        }
        const Character character = decode(text, position);
        if (!character.valid)
            return false;
        position += static_cast<std::size_t>(character.bytes);
    }
    return true;
}

void append(std::string &text, char32_t code)
{
    const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
    const auto tail = [&](unsigned shift) { put(0x80 | ((code >> shift) & 0x3F)); };
    if (code < 0x80) {
        put(code);
    } else if (code < 0x800) {
        put(0xC0 | (code >> 6U));
        tail(0);
    } else if (code < 0x10000) {
        put(0xE0 | (code >> 12U));
        tail(6);
        tail(0);
    } else {
        put(0xF0 | (code >> 18U));
        tail(12);
        tail(6);
        tail(0);
    }
}

std::string repaired(std::string_view text)
{
    std::string out;
    out.reserve(text.size());
    if (appendRepaired(text, out) < text.size())
        append(out, replacement);
    return out;
}

std::string takeComplete(std::string &pending)
{
    std::string out;
    pending.erase(0, appendRepaired(pending, out));
    return out;
}

std::string quoted(std::string_view text)
{
    constexpr std::size_t limit = 80;
    std::string out = "\"";
    for (const char c : repaired(text.substr(0, limit))) {
        if (static_cast<std::uint8_t>(c) >= 0x20 && c != 0x7F) {
            out.push_back(c);
            continue;
        }
        constexpr std::string_view digits = "0123456789abcdef";
        out += "\\x";
        out.push_back(digits[static_cast<std::uint8_t>(c) >> 4U]);
        out.push_back(digits[static_cast<std::uint8_t>(c) & 15U]);
    }
    return out + (text.size() > limit ? "…\"" : "\"");
}

} // namespace engine::utf8
