// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/characters.h"

#include "engine/text/utf8.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

namespace engine::characters {
namespace {

struct Range {
    char32_t first;
    char32_t last;
};

bool isWithin(const Range &range, char32_t code)
{
    return range.first <= code && code <= range.last;
}

struct LowerCase {
    Range upper;
    char32_t lower; ///< of the first
};

// Unicode Character Database, simple lower case: what version 17 has beyond 15.
constexpr std::array<LowerCase, 11> newerLowerCase{{{{0x1C89, 0x1C89}, 0x1C8A},
                                                    {{0xA7CB, 0xA7CB}, 0x264},
                                                    {{0xA7CC, 0xA7CC}, 0xA7CD},
                                                    {{0xA7CE, 0xA7CE}, 0xA7CF},
                                                    {{0xA7D2, 0xA7D2}, 0xA7D3},
                                                    {{0xA7D4, 0xA7D4}, 0xA7D5},
                                                    {{0xA7DA, 0xA7DA}, 0xA7DB},
                                                    {{0xA7DC, 0xA7DC}, 0x19B},
                                                    {{0x10D50, 0x10D65}, 0x10D70},
                                                    {{0x16EA0, 0x16EB8}, 0x16EBB},
                                                    {{0x2C2F, 0x2C2F}, 0x2C5F}}};

} // namespace

bool isWhiteSpace(char32_t code)
{
    if (code < 0x80)
        return code == ' ' || (code >= '\t' && code <= '\r');
    if (code == 0x85)
        return true;
    const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
    return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

bool isChinese(char32_t code)
{
    constexpr std::array<Range, 8> blocks{{{0x3400, 0x4DBF},
                                           {0x4E00, 0x9FFF},
                                           {0xF900, 0xFAFF},
                                           {0x20000, 0x2A6DF},
                                           {0x2A700, 0x2B73F},
                                           {0x2B740, 0x2B81F},
                                           {0x2B920, 0x2CEAF},
                                           {0x2F800, 0x2FA1F}}};
    return std::any_of(blocks.begin(), blocks.end(), [=](const Range &block) { return isWithin(block, code); });
}

void appendLowercase(std::string &text, char32_t code)
{
    // The one character whose lower case is two, whatever the language (Unicode's SpecialCasing.txt).
    constexpr char32_t capitalIWithDot = 0x130;
    if (code < 0x80) {
        text.push_back(static_cast<char>(code >= 'A' && code <= 'Z' ? code + ('a' - 'A') : code));
        return;
    }
    if (code == capitalIWithDot) {
        text += "i\xCC\x87";
        return;
    }
    for (const LowerCase &newer : newerLowerCase) {
        if (isWithin(newer.upper, code)) {
            utf8::append(text, code - newer.upper.first + newer.lower);
            return;
        }
    }
    utf8::append(text, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
}

} // namespace engine::characters
