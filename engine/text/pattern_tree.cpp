// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/pattern_tree.h"

#include "engine/api/error.h"
#include "engine/text/utf8.h"

#include <array>
#include <optional>
#include <string>
#include <utility>

namespace engine {
namespace {

using Kind = PatternTree::Kind;
using Node = PatternTree::Node;

constexpr int mostGroupDepth = 64;
constexpr int mostRepeats = 4096;
constexpr std::size_t maxCharacters = 4096;

const CharacterSet &digits()
{
    static const CharacterSet set({{'0', '9'}});
    return set;
}
const CharacterSet &wordCharacters()
{
    static const CharacterSet set({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
    return set;
}
/// ECMA-262's WhiteSpace and LineTerminator.
const CharacterSet &spaces()
{
    static const CharacterSet set({{'\t', '\r'},
                                   {' ', ' '},
                                   {0xA0, 0xA0},
                                   {0x1680, 0x1680},
                                   {0x2000, 0x200A},
                                   {0x2028, 0x2029},
                                   {0x202F, 0x202F},
                                   {0x205F, 0x205F},
                                   {0x3000, 0x3000},
                                   {0xFEFF, 0xFEFF}});
    return set;
}
const CharacterSet &lineEnds()
{
    static const CharacterSet set({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}});
    return set;
}

class Parser {
public:
    explicit Parser(std::string_view pattern)
    {
        if (!utf8::isValid(pattern))
            refuse("found bytes that are no UTF-8, wanted text");
        for (std::size_t at = 0; at < pattern.size();) {
            const utf8::Character character = utf8::decode(pattern, at);
            m_text.push_back(character.code);
            at += static_cast<std::size_t>(character.bytes);
        }
        if (m_text.size() > maxCharacters)
            refuse("found " + std::to_string(m_text.size()) + " characters, wanted at most "
                   + std::to_string(maxCharacters));
    }

    PatternTree parse()
    {
        parseChoice(0);
        if (!atEnd())
            refuse("found a ) that closes nothing");
        return std::move(m_tree);
    }

private:
    [[noreturn]] void refuse(const std::string &why) const
    {
        throw Error(ErrorCode::Refused, why + " (at character " + std::to_string(m_at) + ')');
    }
    [[nodiscard]] bool atEnd() const { return m_at == m_text.size(); }
    [[nodiscard]] bool sees(char32_t code) const { return !atEnd() && m_text[m_at] == code; }
    bool take(char32_t code)
    {
        const bool here = sees(code);
        m_at += here ? 1 : 0;
        return here;
    }
    bool take(std::u32string_view text)
    {
        const bool here = std::u32string_view(m_text).substr(m_at).starts_with(text);
        m_at += here ? text.size() : 0;
        return here;
    }
    int add(Node node)
    {
        m_tree.nodes.push_back(std::move(node));
        return static_cast<int>(m_tree.nodes.size()) - 1;
    }
    int addSet(CharacterSet set) { return add({Kind::Characters, std::move(set), {}, 0, 0}); }

    int parseChoice(int depth) // NOLINT(misc-no-recursion): mostGroupDepth ends it
    {
        if (depth > mostGroupDepth)
            refuse("found groups nested deeper than " + std::to_string(mostGroupDepth));
        std::vector<int> branches{parseSequence(depth)};
        while (take('|'))
            branches.push_back(parseSequence(depth));
        return add({Kind::Choice, {}, std::move(branches), 0, 0});
    }

    int parseSequence(int depth) // NOLINT(misc-no-recursion)
    {
        std::vector<int> parts;
        while (!atEnd() && !sees('|') && !sees(')')) {
            const int part = parsePart(depth);
            parts.push_back(parseCounts(part));
        }
        return add({Kind::Sequence, {}, std::move(parts), 0, 0});
    }

    int parsePart(int depth) // NOLINT(misc-no-recursion)
    {
        if (take('^'))
            return add({Kind::Begin, {}, {}, 0, 0});
        if (take('$'))
            return add({Kind::End, {}, {}, 0, 0});
        if (take('('))
            return parseGroup(depth);
        if (take('['))
            return parseSet();
        if (take('.'))
            return addSet(lineEnds().complement());
        if (take('\\'))
            return addSet(parseEscape(false));
        if (sees('*') || sees('+') || sees('?'))
            refuse("found a count with nothing before it");
        const char32_t code = m_text[m_at++];
        return addSet(CharacterSet({{code, code}}));
    }

    int parseGroup(int depth) // NOLINT(misc-no-recursion)
    {
        std::optional<Kind> look;
        if (take(U"?=")) {
            look = Kind::Ahead;
        } else if (take(U"?!")) {
            look = Kind::NotAhead;
        } else if (take(U"?<=") || take(U"?<!")) {
            refuse("lookbehind is not supported");
        } else if (take(U"?P<") || take(U"?<")) {
            while (!atEnd() && !sees('>'))
                ++m_at;
            if (!take('>'))
                refuse("found a group whose name does not end");
        } else if (!take(U"?:") && sees('?')) {
            refuse("found a group that begins with (?, wanted (?:, (?=, (?! or (?<name>; flags and atomic groups are "
                   "not supported");
        }
        const int inside = parseChoice(depth + 1);
        if (!take(')'))
            refuse("found a group that is not closed");
        return look ? add({*look, {}, {inside}, 0, 0}) : inside;
    }

    /// A number of at most mostRepeats, when one stands here.
    std::optional<int> parseNumber()
    {
        std::optional<int> number;
        for (; !atEnd() && m_text[m_at] >= '0' && m_text[m_at] <= '9'; ++m_at) {
            number = number.value_or(0) * 10 + static_cast<int>(m_text[m_at] - '0');
            if (*number > mostRepeats)
                refuse("found a count above " + std::to_string(mostRepeats));
        }
        return number;
    }

    /// {n}, {n,} or {n,m}. A brace that begins none of these is a character.
    std::optional<std::pair<int, int>> parseBraces()
    {
        const std::size_t start = m_at;
        if (!take('{'))
            return std::nullopt;
        if (const auto least = parseNumber()) {
            int most = *least;
            if (take(','))
                most = parseNumber().value_or(PatternTree::endless);
            if (take('}')) {
                if (most != PatternTree::endless && most < *least)
                    refuse("found a count whose end is below its beginning");
                return std::pair(*least, most);
            }
        }
        m_at = start;
        return std::nullopt;
    }

    int parseCounts(int part)
    {
        std::pair<int, int> count;
        if (take('*'))
            count = {0, PatternTree::endless};
        else if (take('+'))
            count = {1, PatternTree::endless};
        else if (take('?'))
            count = {0, 1};
        else if (const auto braces = parseBraces())
            count = *braces;
        else
            return part;
        const Kind kind = m_tree.nodes[static_cast<std::size_t>(part)].kind;
        if (kind == Kind::Begin || kind == Kind::End || kind == Kind::Ahead || kind == Kind::NotAhead)
            refuse("found a count behind ^, $ or a lookahead");
        (void)take('?'); // as few as possible, or as many: the same texts
        if (sees('+') || sees('*') || sees('?'))
            refuse("found a count behind a count");
        return add({Kind::Repeat, {}, {part}, count.first, count.second});
    }

    char32_t parseHex(int count)
    {
        char32_t code = 0;
        for (int i = 0; i < count; ++i, ++m_at) {
            const char32_t c = atEnd() ? 0 : m_text[m_at];
            const bool letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
            if (!letter && !(c >= '0' && c <= '9'))
                refuse("found an escape without its " + std::to_string(count) + " hexadecimal digits");
            code = code * 16 + (letter ? (c | 0x20U) - 'a' + 10 : c - '0');
        }
        return code;
    }

    char32_t parseUnicode()
    {
        constexpr char32_t highest = 0x10FFFF;
        if (take('{')) {
            char32_t code = 0;
            do {
                code = code * 16 + parseHex(1);
                if (code > highest)
                    refuse("found an escape above \\u{10FFFF}");
            } while (!take('}'));
            return code;
        }
        const char32_t code = parseHex(4);
        const bool isHigh = code >= 0xD800 && code <= 0xDBFF;
        if (isHigh && take(U"\\u")) {
            const char32_t low = parseHex(4);
            if (low >= 0xDC00 && low <= 0xDFFF)
                return 0x10000 + ((code - 0xD800) << 10U) + (low - 0xDC00);
        }
        if (code >= 0xD800 && code <= 0xDFFF)
            refuse("found half of a surrogate pair");
        return code;
    }

    /// What stands behind a backslash.
    CharacterSet parseEscape(bool inSet)
    {
        if (atEnd())
            refuse("found a \\ at the end");
        const char32_t code = m_text[m_at++];
        static constexpr std::array<std::pair<char32_t, char32_t>, 5> controls{
            {{'t', '\t'}, {'n', '\n'}, {'r', '\r'}, {'f', '\f'}, {'v', '\v'}}};
        for (const auto &[letter, control] : controls)
            if (code == letter)
                return CharacterSet({{control, control}});
        const auto one = [](char32_t character) { return CharacterSet({{character, character}}); };
        switch (code) {
        case 'd':
            return digits();
        case 'D':
            return digits().complement();
        case 'w':
            return wordCharacters();
        case 'W':
            return wordCharacters().complement();
        case 's':
            return spaces();
        case 'S':
            return spaces().complement();
        case 'x':
            return one(parseHex(2));
        case 'u':
            return one(parseUnicode());
        case '0':
            return one(0);
        default:
            break;
        }
        if (code == 'b' && inSet)
            return one('\b');
        const bool isWord = wordCharacters().contains(code) || code > 0x7F;
        if (isWord)
            refuse(std::string("the escape \\") + (code < 0x80 ? std::string(1, static_cast<char>(code)) : "")
                   + " is not supported; word boundaries, references back and \\p are none that can be read here");
        return one(code);
    }

    CharacterSet parseMember()
    {
        if (take('\\'))
            return parseEscape(true);
        const char32_t code = m_text[m_at++];
        return CharacterSet({{code, code}});
    }

    int parseSet()
    {
        const bool inverted = take('^');
        CharacterSet set;
        while (!sees(']')) {
            if (atEnd())
                refuse("found a [ that is not closed");
            CharacterSet member = parseMember();
            const bool isRange = sees('-') && m_at + 1 < m_text.size() && m_text[m_at + 1] != ']';
            if (isRange && isSingle(member)) {
                ++m_at;
                const CharacterSet last = parseMember();
                if (!isSingle(last) || last.ranges().front() < member.ranges().front())
                    refuse("found a range of characters whose end is none or below its beginning");
                member = CharacterSet({{member.ranges().front().first, last.ranges().front().last}});
            }
            set = set.united(member);
        }
        ++m_at;
        return addSet(inverted ? set.complement() : set);
    }

    static bool isSingle(const CharacterSet &set)
    {
        return set.ranges().size() == 1 && set.ranges().front().first == set.ranges().front().last;
    }

    std::u32string m_text;
    std::size_t m_at = 0;
    PatternTree m_tree;
};

} // namespace

PatternTree parsePattern(std::string_view pattern)
{
    return Parser(pattern).parse();
}

} // namespace engine
