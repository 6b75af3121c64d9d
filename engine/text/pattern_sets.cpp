// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/pattern_sets.h"

#include "engine/text/unicode_newer.h"
#include "engine/text/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace engine::pattern_sets {
namespace {

struct Named {
    std::string_view name;
    std::string_view members; ///< as they stand between [ and ]
};

constexpr std::string_view space = R"(\p{Z}\t-\r\x{85})";
constexpr std::string_view hexDigits = "0-9A-Fa-f";
// What is alphabetic without being a letter, a mark or a number.
constexpr std::string_view circled = R"(\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";
constexpr std::string_view word = R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc})";
// Oniguruma takes these for word characters in \w by itself, though not within a set.
constexpr std::string_view latin1Numbers = R"(\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";

// Source: kkos/oniguruma, doc/RE and doc/UNICODE_PROPERTIES; their extent is what the library does with each character.
constexpr std::array<Named, 13> brackets{{{"alnum", R"(\p{Alphabetic}\p{L}\p{Nd})"},
                                          {"alpha", R"(\p{Alphabetic}\p{L})"},
                                          {"ascii", R"(\x{0}-\x{7F})"},
                                          {"blank", R"(\p{Zs}\t)"},
                                          {"cntrl", R"(\p{Cc})"},
                                          {"digit", R"(\p{Nd})"},
                                          {"graph", R"(\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Co})"},
                                          {"lower", R"(\p{Lowercase}\p{Ll})"},
                                          {"print", R"(\p{L}\p{M}\p{N}\p{P}\p{S}\p{Zs}\p{Cf}\p{Co})"},
                                          {"punct", R"(\p{P}\p{S})"},
                                          {"space", space},
                                          {"upper", R"(\p{Uppercase}\p{Lu})"},
                                          {"xdigit", hexDigits}}};

constexpr std::array<Named, 37> longNames{{{"any", R"(\x{0}-\x{10FFFF})"},
                                           {"other", R"(\p{C})"},
                                           {"control", R"(\p{Cc})"},
                                           {"format", R"(\p{Cf})"},
                                           {"unassigned", R"(\p{Cn})"},
                                           {"privateuse", R"(\p{Co})"},
                                           {"letter", R"(\p{L})"},
                                           {"casedletter", R"(\p{Lu}\p{Ll}\p{Lt})"},
                                           {"lc", R"(\p{Lu}\p{Ll}\p{Lt})"},
                                           {"lowercaseletter", R"(\p{Ll})"},
                                           {"modifierletter", R"(\p{Lm})"},
                                           {"otherletter", R"(\p{Lo})"},
                                           {"titlecaseletter", R"(\p{Lt})"},
                                           {"uppercaseletter", R"(\p{Lu})"},
                                           {"mark", R"(\p{M})"},
                                           {"combiningmark", R"(\p{M})"},
                                           {"spacingmark", R"(\p{Mc})"},
                                           {"enclosingmark", R"(\p{Me})"},
                                           {"nonspacingmark", R"(\p{Mn})"},
                                           {"number", R"(\p{N})"},
                                           {"decimalnumber", R"(\p{Nd})"},
                                           {"letternumber", R"(\p{Nl})"},
                                           {"othernumber", R"(\p{No})"},
                                           {"punct", R"(\p{P})"},
                                           {"punctuation", R"(\p{P})"},
                                           {"connectorpunctuation", R"(\p{Pc})"},
                                           {"dashpunctuation", R"(\p{Pd})"},
                                           {"closepunctuation", R"(\p{Pe})"},
                                           {"openpunctuation", R"(\p{Ps})"},
                                           {"otherpunctuation", R"(\p{Po})"},
                                           {"symbol", R"(\p{S})"},
                                           {"currencysymbol", R"(\p{Sc})"},
                                           {"mathsymbol", R"(\p{Sm})"},
                                           {"othersymbol", R"(\p{So})"},
                                           {"separator", R"(\p{Z})"},
                                           {"spaceseparator", R"(\p{Zs})"},
                                           {"assigned", R"(\p{L}\p{M}\p{N}\p{P}\p{S}\p{Z}\p{Cc}\p{Cf}\p{Co})"}}};

template<std::size_t size> std::string_view find(const std::array<Named, size> &table, std::string_view name)
{
    const auto found = std::find_if(table.begin(), table.end(), [&](const Named &row) { return row.name == name; });
    return found == table.end() ? std::string_view() : found->members;
}

/// Members of a class with the characters added that a newer Unicode has.
std::string extended(std::string_view members, bool newer)
{
    std::string out(members);
    for (std::size_t at = newer ? out.find("\\p{") : std::string::npos; at != std::string::npos;
         at = out.find("\\p{", at + 1)) {
        const std::size_t end = out.find('}', at);
        out.insert(end + 1, unicode_newer::ranges(std::string_view(out).substr(at + 3, end - at - 3)));
    }
    return out;
}

Set setOf(std::string_view members, bool newer)
{
    return {extended(members, newer), {}};
}

Set wordSet(bool newer)
{
    return setOf(std::string(word).append(circled).append(latin1Numbers), newer);
}

/// Names are compared without case, spaces, hyphens and underscores.
std::string folded(std::string_view name)
{
    std::string out;
    for (const char c : name) {
        if (c != ' ' && c != '-' && c != '_')
            out.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c));
    }
    return out;
}

bool isCategory(std::string_view name)
{
    constexpr std::array<std::string_view, 37> categories{"c",  "cc", "cf", "cn", "co", "cs", "l",  "ll", "lm", "lo",
                                                          "lt", "lu", "m",  "mc", "me", "mn", "n",  "nd", "nl", "no",
                                                          "p",  "pc", "pd", "pe", "pf", "pi", "po", "ps", "s",  "sc",
                                                          "sk", "sm", "so", "z",  "zl", "zp", "zs"};
    return std::find(categories.begin(), categories.end(), name) != categories.end();
}

/// Whether PCRE2 knows a script by this name. Without "sc:" it would take characters that several scripts share, too.
bool isScript(const std::string &name)
{
    const std::string pattern = "\\p{sc:" + name + "}";
    int fault = 0;
    PCRE2_SIZE offset = 0;
    pcre2_code *code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF, &fault,
                                     &offset, nullptr);
    pcre2_code_free(code);
    return code != nullptr;
}

bool isOneProperty(std::string_view members)
{
    return members.starts_with("\\p{") && members.find('}') + 1 == members.size();
}

std::string hex(char32_t code)
{
    std::array<char, 16> text{};
    std::snprintf(text.data(), text.size(), "\\x{%X}", static_cast<unsigned>(code));
    return text.data();
}

} // namespace

void Set::add(const Set &other)
{
    members += other.members;
    atoms.insert(atoms.end(), other.atoms.begin(), other.atoms.end());
}

void Set::addCharacter(char32_t code)
{
    members += literal(code);
}

void Set::addRange(char32_t first, char32_t last)
{
    members += literal(first) + '-' + literal(last);
}

std::string literal(char32_t code)
{
    const bool plain = (code >= '0' && code <= '9') || (code >= 'A' && code <= 'Z') || (code >= 'a' && code <= 'z');
    std::string text;
    if (plain || code >= 0x80)
        utf8::append(text, code);
    else
        text = hex(code);
    return text;
}

std::string atomOf(const Set &set)
{
    if (set.atoms.empty() && isOneProperty(set.members))
        return set.members;
    if (set.members.empty() && set.atoms.size() == 1)
        return set.atoms.front();
    std::string text = set.members.empty() ? std::string() : '[' + set.members + ']';
    if (set.atoms.empty())
        return text.empty() ? "(?!)" : text;
    for (const std::string &atom : set.atoms)
        text += (text.empty() ? "" : "|") + atom;
    return "(?:" + text + ')';
}

std::string complementOf(const Set &set)
{
    if (!set.atoms.empty())
        return "(?:(?!" + atomOf(set) + ")(?s:.))";
    if (set.members.empty())
        return "(?s:.)";
    if (isOneProperty(set.members))
        return "\\P" + set.members.substr(2);
    return "[^" + set.members + ']';
}

Set ofEscape(char letter, bool inside, bool newer)
{
    switch (letter) {
    case 'w':
        return inside ? ofBracket("word", newer) : wordSet(newer);
    case 'd':
        return setOf("\\p{Nd}", newer);
    case 's':
        return setOf(space, newer);
    default:
        return setOf(hexDigits, newer);
    }
}

Set ofBracket(std::string_view name, bool newer)
{
    if (name == "word")
        return setOf(std::string(word).append(circled), newer);
    return setOf(find(brackets, name), newer);
}

Set ofProperty(std::string_view name, bool newer)
{
    const std::string key = folded(name);
    if (key == "word")
        return wordSet(newer);
    if (isCategory(key)) {
        std::string category = key;
        category[0] = static_cast<char>(category[0] - ('a' - 'A'));
        return setOf("\\p{" + category + '}', newer);
    }
    if (const std::string_view members = find(longNames, key); !members.empty())
        return setOf(members, newer);
    if (const std::string_view members = find(brackets, key); !members.empty())
        return setOf(members, newer);
    if (!isScript(key))
        return {"\\p{" + std::string(name) + '}', {}};
    // What Unicode 15 and 15.1 added.
    constexpr std::array<Named, 3> additions{{{"han", R"(\x{2B739}\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})"},
                                              {"hiragana", R"(\x{1B132})"},
                                              {"katakana", R"(\x{1B155})"}}};
    return {"\\p{sc:" + key + '}' + std::string(newer ? find(additions, key) : std::string_view()), {}};
}

std::string wordBoundary(bool negated, bool newer)
{
    const std::string inside = atomOf(wordSet(newer));
    const std::string one = "(?<=" + inside + ")(?" + (negated ? "=" : "!") + inside + ')';
    const std::string other = "(?<!" + inside + ")(?" + (negated ? "!" : "=") + inside + ')';
    return "(?:" + one + '|' + other + ')';
}

} // namespace engine::pattern_sets
