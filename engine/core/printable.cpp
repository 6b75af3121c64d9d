// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/core/printable.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

namespace engine {

namespace {

struct Step {
    std::int32_t codePoint = -1; ///< -1: ill-formed
    std::size_t bytes = 1;
};

Step nextCodePoint(std::string_view text)
{
    utf8proc_int32_t codePoint = -1;
    const auto *bytes = reinterpret_cast<const utf8proc_uint8_t *>(text.data());
    const auto available = static_cast<utf8proc_ssize_t>(std::min<std::size_t>(text.size(), 4));
    const auto used = utf8proc_iterate(bytes, available, &codePoint);
    if (used <= 0)
        return {};
    return {codePoint, static_cast<std::size_t>(used)};
}

constexpr std::string_view replacement = "\xEF\xBF\xBD";

/// Controls, line and paragraph separators, and the marks that turn the direction of text.
bool needsEscape(std::int32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x061c || c == 0x200e || c == 0x200f
        || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

std::string escape(std::int32_t c)
{
    if (c == '\n')
        return "\\n";
    if (c == '\r')
        return "\\r";
    if (c == '\t')
        return "\\t";
    std::array<char, 16> buffer{};
    std::snprintf(buffer.data(), buffer.size(), "\\u{%x}", static_cast<unsigned>(c));
    return buffer.data();
}

} // namespace

bool isUtf8(std::string_view text)
{
    while (!text.empty()) {
        const Step step = nextCodePoint(text);
        if (step.codePoint < 0)
            return false;
        text.remove_prefix(step.bytes);
    }
    return true;
}

std::string repairUtf8(std::string_view text)
{
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
        const Step step = nextCodePoint(text);
        result += step.codePoint < 0 ? replacement : text.substr(0, step.bytes);
        text.remove_prefix(step.bytes);
    }
    return result;
}

std::string printable(std::string_view text, std::size_t maxBytes)
{
    std::string result;
    while (!text.empty()) {
        if (result.size() >= maxBytes)
            return result + "…";
        const Step step = nextCodePoint(text);
        if (step.codePoint < 0)
            result += replacement;
        else if (needsEscape(step.codePoint))
            result += escape(step.codePoint);
        else
            result += text.substr(0, step.bytes);
        text.remove_prefix(step.bytes);
    }
    return result;
}

std::string inQuotes(std::string_view text, std::size_t maxBytes)
{
    return '"' + printable(text, maxBytes) + '"';
}

} // namespace engine
