// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/json_values.h"

#include <map>

namespace engine {
namespace {

constexpr int mostIndent = 20;
constexpr int mostDigits = 16; // more than a double holds

struct ByteRange {
    std::uint8_t low;
    std::uint8_t high;
};

} // namespace

JsonValues::JsonValues(Grammar &grammar)
    : m_grammar(grammar)
{
}

/// Characters of more than one byte, as RFC 3629 lists them: none too long, no surrogates.
void JsonValues::addUtf8(int from, int to)
{
    static const std::vector<std::vector<ByteRange>> forms{
        {{0xC2, 0xDF}, {0x80, 0xBF}},
        {{0xE0, 0xE0}, {0xA0, 0xBF}, {0x80, 0xBF}},
        {{0xE1, 0xEC}, {0x80, 0xBF}, {0x80, 0xBF}},
        {{0xED, 0xED}, {0x80, 0x9F}, {0x80, 0xBF}},
        {{0xEE, 0xEF}, {0x80, 0xBF}, {0x80, 0xBF}},
        {{0xF0, 0xF0}, {0x90, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}},
        {{0xF1, 0xF3}, {0x80, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}},
        {{0xF4, 0xF4}, {0x80, 0x8F}, {0x80, 0xBF}, {0x80, 0xBF}},
    };
    for (const std::vector<ByteRange> &form : forms) {
        int at = from;
        for (std::size_t i = 0; i + 1 < form.size(); ++i)
            at = m_grammar.byte(at, form[i].low, form[i].high);
        m_grammar.addEdge(at, form.back().low, form.back().high, to);
    }
}

/// A backslash and what may follow it. Halves of surrogate pairs are left out: alone they are no text.
void JsonValues::addEscape(int from, int to)
{
    const int slash = m_grammar.byte(from, '\\', '\\');
    for (const char c : {'"', '\\', '/', 'b', 'f', 'n', 'r', 't'})
        m_grammar.addEdge(slash, static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c), to);
    const auto addHex = [this](int state, int target) {
        m_grammar.addEdge(state, '0', '9', target);
        m_grammar.addEdge(state, 'a', 'f', target);
        m_grammar.addEdge(state, 'A', 'F', target);
    };
    const int first = m_grammar.byte(slash, 'u', 'u');
    const int second = m_grammar.addState();
    const int afterD = m_grammar.addState();
    const int third = m_grammar.addState();
    const int fourth = m_grammar.addState();
    for (const ByteRange range : {ByteRange{'0', '9'}, {'a', 'c'}, {'e', 'f'}, {'A', 'C'}, {'E', 'F'}})
        m_grammar.addEdge(first, range.low, range.high, second);
    m_grammar.addEdge(first, 'd', 'd', afterD);
    m_grammar.addEdge(first, 'D', 'D', afterD);
    addHex(second, third);
    m_grammar.addEdge(afterD, '0', '7', third);
    addHex(third, fourth);
    addHex(fourth, to);
}

int JsonValues::character()
{
    if (m_character >= 0)
        return m_character;
    m_character = m_grammar.addRule();
    const Grammar::Rule rule = m_grammar.rule(m_character);
    for (const ByteRange range : {ByteRange{0x20, '!'}, {'#', '['}, {']', 0x7E}})
        m_grammar.addEdge(rule.start, range.low, range.high, rule.end);
    addUtf8(rule.start, rule.end);
    addEscape(rule.start, rule.end);
    return m_character;
}

int JsonValues::string()
{
    if (m_string >= 0)
        return m_string;
    m_string = m_grammar.addRule();
    const Grammar::Rule rule = m_grammar.rule(m_string);
    const int inside = m_grammar.byte(rule.start, '"', '"');
    m_grammar.addCall(inside, character(), inside);
    m_grammar.addEdge(inside, '"', '"', rule.end);
    return m_string;
}

int JsonValues::digits(int from, int least, int most)
{
    const int end = m_grammar.addState();
    for (int i = 1; i <= most; ++i) {
        from = m_grammar.byte(from, '0', '9');
        if (i >= least)
            m_grammar.addEmpty(from, end);
    }
    if (least == 0)
        m_grammar.addEmpty(from, end);
    return end;
}

int JsonValues::integer()
{
    if (m_integer >= 0)
        return m_integer;
    m_integer = m_grammar.addRule();
    const Grammar::Rule rule = m_grammar.rule(m_integer);
    const int positive = m_grammar.byte(rule.start, '-', '-');
    m_grammar.addEmpty(rule.start, positive);
    m_grammar.addEdge(positive, '0', '0', rule.end);
    const int more = m_grammar.byte(positive, '1', '9');
    m_grammar.addEmpty(more, rule.end);
    m_grammar.addEmpty(digits(more, 1, mostDigits - 1), rule.end);
    return m_integer;
}

int JsonValues::number()
{
    if (m_number >= 0)
        return m_number;
    const int whole = integer();
    m_number = m_grammar.addRule();
    const Grammar::Rule rule = m_grammar.rule(m_number);
    const int afterWhole = m_grammar.call(rule.start, whole);
    m_grammar.addEmpty(afterWhole, rule.end);
    const int afterFraction = digits(m_grammar.byte(afterWhole, '.', '.'), 1, mostDigits);
    m_grammar.addEmpty(afterFraction, rule.end);
    m_grammar.addEmpty(afterWhole, afterFraction);
    const int exponent = m_grammar.addState();
    m_grammar.addEdge(afterFraction, 'e', 'e', exponent);
    m_grammar.addEdge(afterFraction, 'E', 'E', exponent);
    const int signedExponent = m_grammar.addState();
    m_grammar.addEmpty(exponent, signedExponent);
    m_grammar.addEdge(exponent, '+', '+', signedExponent);
    m_grammar.addEdge(exponent, '-', '-', signedExponent);
    m_grammar.addEmpty(digits(signedExponent, 1, 2), rule.end);
    return m_number;
}

int JsonValues::value()
{
    if (m_value >= 0)
        return m_value;
    m_value = m_grammar.addRule();
    const Grammar::Rule rule = m_grammar.rule(m_value);
    for (const char *word : {"true", "false", "null"})
        m_grammar.addEmpty(m_grammar.literal(rule.start, word), rule.end);
    for (const int part : {string(), number(), object(), array()})
        m_grammar.addCall(rule.start, part, rule.end);
    return m_value;
}

int JsonValues::object()
{
    if (m_object >= 0)
        return m_object;
    m_object = m_grammar.addRule();
    const Grammar::Rule rule = m_grammar.rule(m_object);
    const int open = m_grammar.byte(rule.start, '{', '{');
    m_grammar.addEdge(open, '}', '}', rule.end);
    const int key = space(open);
    const int colon = m_grammar.byte(m_grammar.call(key, string()), ':', ':');
    const int after = m_grammar.call(gap(colon), value());
    m_grammar.addEmpty(space(m_grammar.byte(after, ',', ',')), key);
    m_grammar.addEdge(space(after), '}', '}', rule.end);
    return m_object;
}

int JsonValues::array()
{
    if (m_array >= 0)
        return m_array;
    m_array = m_grammar.addRule();
    const Grammar::Rule rule = m_grammar.rule(m_array);
    const int open = m_grammar.byte(rule.start, '[', '[');
    m_grammar.addEdge(open, ']', ']', rule.end);
    const int item = space(open);
    const int after = m_grammar.call(item, value());
    m_grammar.addEmpty(space(m_grammar.byte(after, ',', ',')), item);
    m_grammar.addEdge(space(after), ']', ']', rule.end);
    return m_array;
}

int JsonValues::space(int from)
{
    const int end = m_grammar.addState();
    m_grammar.addEmpty(from, end);
    m_grammar.addEdge(from, ' ', ' ', end);
    int at = m_grammar.byte(from, '\n', '\n');
    m_grammar.addEmpty(at, end);
    for (int i = 0; i < mostIndent; ++i) {
        at = m_grammar.byte(at, ' ', ' ');
        m_grammar.addEmpty(at, end);
    }
    return end;
}

int JsonValues::gap(int from)
{
    const int end = m_grammar.byte(from, ' ', ' ');
    m_grammar.addEmpty(from, end);
    return end;
}

/// A tree of the names: a key may leave it anywhere by another character, but not end where a name ends. Inside of the
/// tree no escapes are allowed, as one could spell a name in another way.
int JsonValues::otherKey(int from, const std::vector<std::string> &names)
{
    struct Node {
        std::map<std::uint8_t, int> next;
        bool ends = false;
        int state = 0;
    };
    std::vector<Node> nodes(1);
    for (const std::string &name : names) {
        int at = 0;
        for (const char c : name) {
            const auto [next, isNew] =
                nodes[static_cast<std::size_t>(at)].next.try_emplace(static_cast<std::uint8_t>(c), nodes.size());
            at = next->second;
            if (isNew)
                nodes.emplace_back();
        }
        nodes[static_cast<std::size_t>(at)].ends = true;
    }
    const int end = m_grammar.addState();
    const int free = m_grammar.addState();
    m_grammar.addCall(free, character(), free);
    m_grammar.addEdge(free, '"', '"', end);
    nodes[0].state = m_grammar.byte(from, '"', '"');
    for (std::size_t i = 1; i < nodes.size(); ++i)
        nodes[i].state = m_grammar.addState();
    for (const Node &node : nodes) {
        if (!node.ends && &node != &nodes[0])
            m_grammar.addEdge(node.state, '"', '"', end);
        for (int byte = 0x20; byte <= 0x7E; ++byte) {
            if (byte == '"' || byte == '\\')
                continue;
            const auto next = node.next.find(static_cast<std::uint8_t>(byte));
            if (next != node.next.end())
                m_grammar.addEdge(node.state, static_cast<std::uint8_t>(byte), static_cast<std::uint8_t>(byte),
                                  nodes[static_cast<std::size_t>(next->second)].state);
            else
                m_grammar.addEdge(node.state, static_cast<std::uint8_t>(byte), static_cast<std::uint8_t>(byte), free);
        }
    }
    return end;
}

} // namespace engine
