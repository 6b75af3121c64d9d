// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_unicode.h"

#include "engine/text/jinja_special_case.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace engine::jinja {
namespace {

constexpr std::size_t kFirstWindow = 1024;
constexpr char32_t kCapitalSigma = 0x3A3;
constexpr char32_t kFinalSigma = 0x3C2;
constexpr char32_t kSmallSigma = 0x3C3;
constexpr char32_t kCapitalIWithDot = 0x130;

utf8proc_category_t category(char32_t c)
{
    return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

template<std::size_t N> const SpecialCase *special(const SpecialCase (&table)[N], char32_t c)
{
    const auto *found = std::lower_bound(std::begin(table), std::end(table), c,
                                         [](const SpecialCase &entry, char32_t wanted) { return entry.from < wanted; });
    return found != std::end(table) && found->from == c ? found : nullptr;
}

void appendSpecial(std::string &out, const SpecialCase &entry)
{
    for (const char32_t c : entry.to) {
        if (c != 0)
            appendChar(out, c);
    }
}

void appendUpper(std::string &out, char32_t c)
{
    if (const SpecialCase *entry = special(kUpperSpecial, c))
        appendSpecial(out, *entry);
    else
        appendChar(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
}

void appendTitle(std::string &out, char32_t c)
{
    if (const SpecialCase *entry = special(kTitleSpecial, c))
        appendSpecial(out, *entry);
    else
        appendChar(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
}

bool isCased(char32_t c)
{
    return isUpper(c) || isLower(c) || isTitle(c);
}

bool isCaseIgnorable(char32_t c)
{
    switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
        return true;
    default:
        return c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x2018 || c == 0x2019 || c == 0x2024
            || c == 0x2027;
    }
}

// Unicode 3.13, Final_Sigma: a cased letter before, none after, what is case-ignorable does not count.
bool isFinalSigma(std::string_view text, std::size_t before, std::size_t after)
{
    bool cased = false;
    while (before > 0) {
        const char32_t c = previousChar(text, before);
        if (!isCaseIgnorable(c)) {
            cased = isCased(c);
            break;
        }
    }
    while (cased && after < text.size()) {
        const char32_t c = nextChar(text, after);
        if (!isCaseIgnorable(c))
            return !isCased(c);
    }
    return cased;
}

void appendLower(std::string &out, std::string_view text, std::size_t start, std::size_t end, char32_t c)
{
    if (c == kCapitalIWithDot)
        out += "i\xCC\x87";
    else if (c == kCapitalSigma)
        appendChar(out, isFinalSigma(text, start, end) ? kFinalSigma : kSmallSigma);
    else
        appendChar(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

int trailingBytes(unsigned char lead)
{
    return lead < 0x80 ? 0 : (lead < 0xE0 ? 1 : (lead < 0xF0 ? 2 : 3));
}

} // namespace

std::size_t invalidUtf8(std::string_view text)
{
    for (std::size_t i = 0; i < text.size();) {
        if (static_cast<unsigned char>(text[i]) < 0x80) {
            ++i;
            continue;
        }
        utf8proc_int32_t c = 0;
        const auto left = static_cast<utf8proc_ssize_t>(std::min<std::size_t>(4, text.size() - i));
        const auto used = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t *>(text.data() + i), left, &c);
        if (used <= 0)
            return i;
        i += static_cast<std::size_t>(used);
    }
    return std::string_view::npos;
}

char32_t nextChar(std::string_view text, std::size_t &position)
{
    const auto lead = static_cast<unsigned char>(text[position++]);
    const int more = trailingBytes(lead);
    char32_t c = more == 0 ? lead : lead & (0x3FU >> static_cast<unsigned>(more));
    for (int i = 0; i < more && position < text.size(); ++i)
        c = (c << 6U) | (static_cast<unsigned char>(text[position++]) & 0x3FU);
    return c;
}

char32_t previousChar(std::string_view text, std::size_t &position)
{
    do
        --position;
    while (position > 0 && (static_cast<unsigned char>(text[position]) & 0xC0U) == 0x80);
    std::size_t at = position;
    return nextChar(text, at);
}

void appendChar(std::string &out, char32_t c)
{
    if (c < 0x80) {
        out.push_back(static_cast<char>(c));
        return;
    }
    utf8proc_uint8_t bytes[4];
    const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes);
    out.append(reinterpret_cast<const char *>(bytes), static_cast<std::size_t>(count));
}

std::int64_t countChars(std::string_view text)
{
    return std::count_if(text.begin(), text.end(),
                         [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80; });
}

std::size_t byteOffset(std::string_view text, std::int64_t index)
{
    std::size_t position = 0;
    for (; index > 0 && position < text.size(); --index)
        position += 1 + static_cast<std::size_t>(trailingBytes(static_cast<unsigned char>(text[position])));
    return std::min(position, text.size());
}

std::size_t findText(std::string_view text, std::string_view needle, std::size_t from)
{
    if (from > text.size())
        return std::string_view::npos;
    if (needle.empty())
        return from;
    if (needle.size() == 1)
        return text.find(needle[0], from);
    // memmem searches in linear time; std::string_view::find does not. It gets one window after another, since a
    // sanitizer reads all that memmem is given, however near the match.
    for (std::size_t window = needle.size() + kFirstWindow; from < text.size(); window *= 2) {
        const std::string_view part = text.substr(from, window);
        const void *found = memmem(part.data(), part.size(), needle.data(), needle.size());
        if (found != nullptr)
            return static_cast<std::size_t>(static_cast<const char *>(found) - text.data());
        if (part.size() < window)
            break;
        from += window - needle.size() + 1;
    }
    return std::string_view::npos;
}

bool isSpace(char32_t c)
{
    return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680
        || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool isLineEnd(char32_t c)
{
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool isAlpha(char32_t c)
{
    const auto kind = category(c);
    return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool isDecimal(char32_t c)
{
    return category(c) == UTF8PROC_CATEGORY_ND;
}

bool isDigit(char32_t c)
{
    // Superscripts, subscripts and circled digits are digits of Unicode's second sort.
    return isDecimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079)
        || (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247C)
        || (c >= 0x2488 && c <= 0x2490) || c == 0x24EA || (c >= 0x24F5 && c <= 0x24FD) || c == 0x24FF
        || (c >= 0x2776 && c <= 0x277E) || (c >= 0x2780 && c <= 0x2788) || (c >= 0x278A && c <= 0x2792)
        || (c >= 0x1369 && c <= 0x1371);
}

bool isNumeric(char32_t c)
{
    const auto kind = category(c);
    return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_NO;
}

bool isWord(char32_t c)
{
    return c == '_' || isAlpha(c) || isNumeric(c);
}

bool isUpper(char32_t c)
{
    return category(c) == UTF8PROC_CATEGORY_LU || (c >= 0x2160 && c <= 0x216F) || (c >= 0x24B6 && c <= 0x24CF);
}

bool isLower(char32_t c)
{
    return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA || (c >= 0x2170 && c <= 0x217F)
        || (c >= 0x24D0 && c <= 0x24E9);
}

bool isTitle(char32_t c)
{
    return category(c) == UTF8PROC_CATEGORY_LT;
}

bool isPrintable(char32_t c)
{
    switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    case UTF8PROC_CATEGORY_ZS:
        return c == ' ';
    default:
        return true;
    }
}

bool isIdentifier(std::string_view text)
{
    for (std::size_t i = 0; i < text.size();) {
        const bool first = i == 0;
        const char32_t c = nextChar(text, i);
        const auto kind = category(c);
        const bool mark = kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC || kind == UTF8PROC_CATEGORY_PC;
        if (!(c == '_' || isAlpha(c) || kind == UTF8PROC_CATEGORY_NL || (!first && (mark || isDecimal(c)))))
            return false;
    }
    return !text.empty();
}

int digitValue(char32_t c)
{
    if (c < 0x80)
        return c >= '0' && c <= '9' ? static_cast<int>(c - '0') : -1;
    if (!isDecimal(c))
        return -1;
    // Decimal digits stand in runs of ten that begin at the zero.
    int value = 0;
    while (value < 9 && isDecimal(c - static_cast<char32_t>(value) - 1))
        ++value;
    return value;
}

std::string toUpper(std::string_view text)
{
    std::string out;
    for (std::size_t i = 0; i < text.size();)
        appendUpper(out, nextChar(text, i));
    return out;
}

std::string toLower(std::string_view text)
{
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
        const std::size_t start = i;
        const char32_t c = nextChar(text, i);
        appendLower(out, text, start, i, c);
    }
    return out;
}

std::string toTitle(std::string_view text)
{
    std::string out;
    bool inWord = false;
    for (std::size_t i = 0; i < text.size();) {
        const std::size_t start = i;
        const char32_t c = nextChar(text, i);
        if (inWord)
            appendLower(out, text, start, i, c);
        else
            appendTitle(out, c);
        inWord = isCased(c);
    }
    return out;
}

std::string toCapitalized(std::string_view text)
{
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
        const std::size_t start = i;
        const char32_t c = nextChar(text, i);
        if (start == 0)
            appendTitle(out, c);
        else
            appendLower(out, text, start, i, c);
    }
    return out;
}

std::string swapCase(std::string_view text)
{
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
        const std::size_t start = i;
        const char32_t c = nextChar(text, i);
        if (isUpper(c))
            appendLower(out, text, start, i, c);
        else if (isLower(c))
            appendUpper(out, c);
        else
            appendChar(out, c);
    }
    return out;
}

std::string caseFold(std::string_view text)
{
    utf8proc_uint8_t *folded = nullptr;
    const auto count = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t *>(text.data()),
                                    static_cast<utf8proc_ssize_t>(text.size()), &folded, UTF8PROC_CASEFOLD);
    std::string out = count < 0 ? toLower(text)
                                : std::string(reinterpret_cast<const char *>(folded), static_cast<std::size_t>(count));
    free(folded); // NOLINT: utf8proc allocates with malloc
    return out;
}

namespace {

template<class Drop> std::string_view strip(std::string_view text, Ends ends, const Drop &drop)
{
    std::size_t begin = 0;
    for (std::size_t next = 0; ends != Ends::Right && begin < text.size(); begin = next) {
        if (!drop(nextChar(text, next)))
            break;
    }
    std::size_t end = text.size();
    for (std::size_t previous = end; ends != Ends::Left && end > begin; end = previous) {
        if (!drop(previousChar(text, previous)))
            break;
    }
    return text.substr(begin, end - begin);
}

} // namespace

std::string_view stripSpace(std::string_view text, Ends ends)
{
    return strip(text, ends, isSpace);
}

std::string_view stripChars(std::string_view text, std::string_view chars, Ends ends)
{
    return strip(text, ends, [chars](char32_t c) {
        std::string one;
        appendChar(one, c);
        return chars.find(one) != std::string_view::npos;
    });
}

} // namespace engine::jinja
