// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/pattern_translator.h"

#include "engine/api/error.h"
#include "engine/text/pattern_sets.h"
#include "engine/text/utf8.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

namespace engine {
namespace {

using pattern_sets::Set;

constexpr int deepestSets = 50; // sets within sets

char lower(char c)
{
    return static_cast<char>(static_cast<unsigned char>(c) | 0x20U);
}
bool isDigit(char c)
{
    return c >= '0' && c <= '9';
}
bool isLetter(char c)
{
    return lower(c) >= 'a' && lower(c) <= 'z';
}

class Translator {
public:
    Translator(std::string_view pattern, bool newer)
        : m_pattern(pattern)
        , m_newer(newer)
    {
    }

    std::string translate()
    {
        while (m_at < m_pattern.size())
            part();
        while (!m_groups.empty() && m_groups.back().isOption)
            closeGroup();
        return std::move(m_out);
    }

private:
    struct Group {
        std::size_t begin = 0; ///< in the result
        bool extended = false; ///< before it
        bool isOption = false; ///< made for an option that holds up to the end of the group around it
    };
    static constexpr std::size_t none = std::string::npos;

    [[noreturn]] void refuse(const std::string &what) const
    {
        throw Error(ErrorCode::Refused,
                    "pre-tokenizer: pattern " + utf8::quoted(m_pattern) + " was refused at offset "
                        + std::to_string(m_at) + ": " + what);
    }
    [[nodiscard]] char peek(std::size_t ahead = 0) const
    {
        return m_at + ahead < m_pattern.size() ? m_pattern[m_at + ahead] : '\0';
    }
    [[nodiscard]] bool startsWith(std::string_view text) const { return m_pattern.substr(m_at).starts_with(text); }

    void part();
    void atom(const std::string &text)
    {
        m_atom = m_out.size();
        m_quantified = false;
        m_out += text;
    }
    void openGroup();
    void openOptions();
    void closeGroup();
    void quantifier();
    [[nodiscard]] std::optional<std::string> interval();
    void escape();
    void anchorOrReference(char c);

    char32_t character();
    [[nodiscard]] std::optional<char32_t> codeEscape();
    char32_t digits(std::size_t most, int base);
    char32_t hexBytes();
    [[nodiscard]] std::optional<Set> setEscape(bool inside);
    Set set(int depth);
    void setItem(Set &into, int depth);
    [[nodiscard]] std::optional<Set> bracket();

    std::string_view m_pattern;
    bool m_newer;
    std::size_t m_at = 0;
    std::string m_out;
    std::size_t m_atom = none; ///< in the result, where what a quantifier applies to begins
    bool m_quantified = false; ///< that has one
    bool m_extended = false;   ///< spaces and comments are no part of the pattern
    std::vector<Group> m_groups;
};

void Translator::part()
{
    const char c = peek();
    if (m_extended && c == '#') {
        m_at = std::min(m_pattern.find('\n', m_at), m_pattern.size());
    } else if (m_extended && (c == ' ' || (c >= '\t' && c <= '\r'))) {
        ++m_at;
    } else if (c == '(') {
        openGroup();
    } else if (c == ')') {
        while (!m_groups.empty() && m_groups.back().isOption)
            closeGroup();
        ++m_at;
        closeGroup();
    } else if (c == '|') {
        ++m_at;
        m_out += '|';
        m_atom = none;
    } else if (c == '[') {
        ++m_at;
        atom(pattern_sets::atomOf(set(0)));
    } else if (c == '\\') {
        escape();
    } else if (c == '*' || c == '+' || c == '?' || c == '{') {
        quantifier();
    } else if (c == '.' || c == '^' || c == '$') {
        ++m_at;
        atom(std::string(1, c));
    } else {
        atom(pattern_sets::literal(character()));
    }
}

void Translator::openGroup()
{
    if (startsWith("(?#")) {
        m_at = std::min(m_pattern.find(')', m_at), m_pattern.size() - 1) + 1;
        return;
    }
    if (startsWith("(*") || startsWith("(?~") || startsWith("(?{") || startsWith("(?C") || startsWith("(?R"))
        refuse("this kind of group is not supported");
    if (startsWith("(?") && (isLetter(peek(2)) || (peek(2) == '-' && isLetter(peek(3))))) {
        openOptions();
        return;
    }
    std::size_t head = 1;
    if (startsWith("(?<") && peek(3) != '=' && peek(3) != '!')
        head = std::min(m_pattern.find('>', m_at), m_pattern.size() - 1) + 1 - m_at;
    else if (startsWith("(?'"))
        head = std::min(m_pattern.find('\'', m_at + 3), m_pattern.size() - 1) + 1 - m_at;
    else if (startsWith("(?<"))
        head = 4;
    else if (startsWith("(?"))
        head = 3;
    m_groups.push_back({m_out.size(), m_extended, false});
    m_out += m_pattern.substr(m_at, head);
    m_at = std::min(m_at + head, m_pattern.size());
    m_atom = none;
}

/// (?i), which holds up to the end of the group around it and there for every alternative, or (?i:...).
void Translator::openOptions()
{
    std::string options;
    bool on = true;
    const Group group{m_out.size(), m_extended, false};
    for (m_at += 2; m_at < m_pattern.size() && peek() != ')' && peek() != ':'; ++m_at) {
        const char c = peek();
        if (c != 'i' && c != 'm' && c != 'x' && c != '-')
            refuse("the option " + std::string(1, c) + " is not supported, only i, m and x are");
        on = on && c != '-';
        m_extended = c == 'x' ? on : m_extended;
        if (c != 'x') // spaces and comments are left out here
            options += c == 'm' ? 's' : c;
    }
    m_groups.push_back(group);
    m_groups.back().isOption = peek() == ')';
    ++m_at;
    m_out += "(?" + options + ':';
    m_atom = none;
}

void Translator::closeGroup()
{
    m_out += ')';
    m_quantified = false;
    m_atom = none;
    if (m_groups.empty())
        return; // for PCRE2 to refuse
    m_atom = m_groups.back().begin;
    m_extended = m_groups.back().extended;
    m_groups.pop_back();
}

/// {n}, {n,}, {,m} or {n,m} at the current place as PCRE2 has it; nothing for a brace that is none.
std::optional<std::string> Translator::interval()
{
    const std::size_t end = m_pattern.find('}', m_at);
    if (end == none)
        return std::nullopt;
    const std::string_view inside = m_pattern.substr(m_at + 1, end - m_at - 1);
    const std::size_t comma = inside.find(',');
    const auto allDigits = [](std::string_view text) { return std::all_of(text.begin(), text.end(), isDigit); };
    const std::string_view least = inside.substr(0, comma);
    const std::string_view most = comma == none ? std::string_view() : inside.substr(comma + 1);
    if (!allDigits(least) || !allDigits(most) || (least.empty() && most.empty()))
        return std::nullopt;
    std::string text = "{" + (least.empty() ? std::string("0") : std::string(least));
    text += comma == none ? "" : "," + std::string(most);
    return text + '}';
}

/// A quantifier behind another one applies to all before it; + and ? behind an interval are of that kind, too, but for
/// the ? of a true range, which makes it reluctant.
void Translator::quantifier()
{
    std::string text(1, peek());
    if (peek() == '{') {
        const std::optional<std::string> found = interval();
        if (!found) {
            ++m_at;
            atom("\\{");
            return;
        }
        m_at = m_pattern.find('}', m_at) + 1;
        text = *found;
        if (peek() == '?' && text.find(',') != none) {
            text += '?';
            ++m_at;
        }
    } else {
        ++m_at;
        if (peek() == '?' || peek() == '+')
            text += m_pattern[m_at++];
    }
    if (m_quantified && m_atom != none) {
        m_out.insert(m_atom, "(?:");
        m_out += ')';
    }
    m_out += text;
    m_quantified = true;
}

void Translator::escape()
{
    if (const std::optional<Set> found = setEscape(false)) {
        atom(pattern_sets::atomOf(*found));
        return;
    }
    if (const std::optional<char32_t> code = codeEscape()) {
        atom(pattern_sets::literal(*code));
        return;
    }
    ++m_at;
    if (m_at == m_pattern.size())
        refuse("nothing stands behind the last backslash");
    const char c = peek();
    if (isLetter(c) || isDigit(c))
        anchorOrReference(c);
    else
        atom(pattern_sets::literal(character()));
}

/// Letters that mean nothing stand for themselves.
void Translator::anchorOrReference(char c)
{
    ++m_at;
    if (c == 'b' || c == 'B') {
        atom(pattern_sets::wordBoundary(c == 'B', m_newer));
    } else if (c == 'O') {
        atom("(?s:.)");
    } else if (c == 'y' || c == 'Y' || c == 'M') {
        refuse(std::string("the escape \\") + c + " is not supported");
    } else if ((c == 'k' || c == 'g') && (peek() == '<' || peek() == '\'')) {
        const std::size_t end = m_pattern.find(peek() == '<' ? '>' : '\'', m_at + 1);
        if (end == none)
            refuse("a name does not end");
        atom(std::string("\\") + c + std::string(m_pattern.substr(m_at, end + 1 - m_at)));
        m_at = end + 1;
    } else if (isDigit(c)) {
        std::string number(1, c);
        while (isDigit(peek()))
            number += m_pattern[m_at++];
        atom("(?:\\" + number + ')');
    } else if (std::string_view("AzZGKRXN").find(c) != none) {
        atom(std::string("\\") + c);
    } else {
        atom(std::string(1, c));
    }
}

char32_t Translator::character()
{
    if (m_at >= m_pattern.size())
        refuse("the pattern ends where a character should stand");
    const utf8::Character found = utf8::decode(m_pattern, m_at);
    m_at += static_cast<std::size_t>(found.bytes);
    return found.code;
}

/// The value of at most so many digits at the current place.
char32_t Translator::digits(std::size_t most, int base)
{
    char32_t value = 0;
    for (std::size_t i = 0; i < most; ++i, ++m_at) {
        const char c = peek();
        const int digit = isDigit(c) ? c - '0' : isLetter(c) ? lower(c) - 'a' + 10 : base;
        if (digit >= base)
            break;
        value = value * static_cast<char32_t>(base) + static_cast<char32_t>(digit);
    }
    return value;
}

/// \xNN, and further ones as long as they are the bytes of one character.
char32_t Translator::hexBytes()
{
    std::string bytes;
    do {
        m_at += 2;
        bytes.push_back(static_cast<char>(digits(2, 16)));
    } while (utf8::decode(bytes, 0).cut && startsWith("\\x")
             && std::isxdigit(static_cast<unsigned char>(peek(2))) != 0);
    const utf8::Character found = utf8::decode(bytes, 0);
    if (!found.valid || static_cast<std::size_t>(found.bytes) != bytes.size())
        refuse("bytes that are no UTF-8");
    return found.code;
}

/// An escape that stands for one character by its number or as a control character.
std::optional<char32_t> Translator::codeEscape()
{
    constexpr std::string_view names = "tnrfvae";
    constexpr std::string_view codes = "\t\n\r\f\v\a\x1B";
    const char c = peek(1);
    if (const std::size_t at = c == '\0' ? none : names.find(c); at != none) {
        m_at += 2;
        return static_cast<char32_t>(codes[at]);
    }
    if (c == 'x' && peek(2) == '{') {
        m_at += 3;
        const char32_t code = digits(8, 16);
        if (peek() != '}' || code > 0x10FFFF)
            refuse("a character number is wrong");
        ++m_at;
        return code;
    }
    if (c == 'x' && std::isxdigit(static_cast<unsigned char>(peek(2))) != 0)
        return hexBytes();
    if (c == 'u' || c == '0') {
        m_at += c == 'u' ? 2 : 1;
        return c == 'u' ? digits(4, 16) : digits(3, 8);
    }
    if (c == 'c' || (c == 'C' && peek(2) == '-')) {
        m_at += c == 'c' ? 2 : 3;
        return character() & 0x1FU;
    }
    return std::nullopt;
}

/// \w and the like, \p{...}, \P{...} and \p{^...}.
std::optional<Set> Translator::setEscape(bool inside)
{
    const char c = peek(1);
    const bool negated = c >= 'A' && c <= 'Z';
    Set found;
    if (c != '\0' && std::string_view("wdshWDSH").find(c) != none) {
        m_at += 2;
        found = pattern_sets::ofEscape(lower(c), inside, m_newer);
        return negated ? Set{{}, {pattern_sets::complementOf(found)}} : found;
    }
    if (lower(c) != 'p' || peek(2) != '{')
        return std::nullopt;
    const std::size_t end = m_pattern.find('}', m_at);
    if (end == none)
        refuse("the name of a property does not end");
    const bool circumflex = peek(3) == '^';
    const std::size_t begin = m_at + (circumflex ? 4 : 3);
    found = pattern_sets::ofProperty(m_pattern.substr(begin, end - begin), m_newer);
    m_at = end + 1;
    return negated != circumflex ? Set{{}, {pattern_sets::complementOf(found)}} : found;
}

/// [:name:] or [:^name:] within a set.
std::optional<Set> Translator::bracket()
{
    const std::size_t end = m_pattern.find(":]", m_at);
    if (!startsWith("[:") || end == none)
        return std::nullopt;
    const bool negated = peek(2) == '^';
    const std::size_t begin = m_at + (negated ? 3 : 2);
    if (end < begin)
        return std::nullopt;
    Set found = pattern_sets::ofBracket(m_pattern.substr(begin, end - begin), m_newer);
    if (found.members.empty())
        return std::nullopt;
    m_at = end + 2;
    return negated ? Set{{}, {pattern_sets::complementOf(found)}} : found;
}

/// A set behind its [, up to and with its ].
Set Translator::set(int depth)
{
    if (depth > deepestSets)
        refuse("sets are nested too deep, more than " + std::to_string(deepestSets) + " within each other");
    const bool negated = peek() == '^';
    m_at += negated ? 1 : 0;
    std::vector<Set> parts(1);
    for (bool first = true; first || peek() != ']'; first = false) {
        if (m_at >= m_pattern.size())
            refuse("a set does not end: missing terminating ]");
        if (startsWith("&&")) {
            m_at += 2;
            parts.emplace_back();
        } else {
            setItem(parts.back(), depth);
        }
    }
    ++m_at;
    Set all = parts.front();
    if (parts.size() > 1) {
        std::string both;
        for (std::size_t i = 0; i + 1 < parts.size(); ++i)
            both += "(?=" + pattern_sets::atomOf(parts[i]) + ')';
        all = {{}, {"(?:" + both + pattern_sets::atomOf(parts.back()) + ')'}};
    }
    return negated ? Set{{}, {pattern_sets::complementOf(all)}} : all;
}

void Translator::setItem(Set &into, int depth)
{
    if (peek() == '[') {
        if (const std::optional<Set> named = bracket()) {
            into.add(*named);
            return;
        }
        ++m_at;
        into.add(set(depth + 1));
        return;
    }
    const auto one = [&]() -> std::optional<char32_t> {
        if (peek() != '\\')
            return character();
        if (const std::optional<Set> named = setEscape(true)) {
            into.add(*named);
            return std::nullopt;
        }
        if (const std::optional<char32_t> code = codeEscape())
            return code;
        ++m_at;
        if (m_at == m_pattern.size())
            refuse("nothing stands behind the last backslash");
        return peek() == 'b' ? (++m_at, U'\b') : character();
    };
    const std::optional<char32_t> first = one();
    if (!first)
        return;
    if (peek() != '-' || peek(1) == ']' || peek(1) == '[' || peek(1) == '\0') {
        into.addCharacter(*first);
        return;
    }
    ++m_at;
    if (const std::optional<char32_t> last = one()) {
        into.addRange(*first, *last);
    } else { // [a-\d]
        into.addCharacter(*first);
        into.addCharacter('-');
    }
}

} // namespace

std::string pcrePattern(std::string_view pattern, bool newer)
{
    return Translator(pattern, newer).translate();
}

} // namespace engine
