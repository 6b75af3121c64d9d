// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/characters.h"

#include "engine/text/utf8.h"

#include <utf8proc.h>

namespace engine::characters {

bool isWhiteSpace(char32_t code)
{
    if (code == 0x85 || (code >= '\t' && code <= '\r'))
        return true;
    const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
    return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

bool isMark(char32_t code)
{
    const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
    return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME;
}

bool isWordCharacter(char32_t code)
{
    switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return code == 0x200C || code == 0x200D;
    }
}

void appendLowercase(std::string &text, char32_t code)
{
    // The one character whose lower case is two, whatever the language (Unicode's SpecialCasing.txt).
    constexpr char32_t capitalIWithDot = 0x130;
    if (code == capitalIWithDot)
        text += "i\xCC\x87";
    else
        utf8::append(text, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
}

} // namespace engine::characters
