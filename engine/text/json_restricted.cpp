// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/json_restricted.h"

#include <algorithm>
#include <array>
#include <string>

namespace engine {
namespace {

/// Numbers of one length: a prefix may be that of the least, of the greatest, of both or of neither.
void addDigits(Grammar &grammar, int from, const std::string &low, const std::string &high, int to)
{
    std::array<int, 4> states{-1, -1, -1, from}; // by 2 * (prefix of low) + (prefix of high)
    for (std::size_t i = 0; i < low.size(); ++i) {
        std::array<int, 4> next{-1, -1, -1, -1};
        for (std::size_t kind = 0; kind < states.size(); ++kind) {
            if (states[kind] < 0)
                continue;
            const bool atLow = kind >= 2;
            const bool atHigh = kind % 2 == 1;
            for (char digit = atLow ? low[i] : '0'; digit <= (atHigh ? high[i] : '9'); ++digit) {
                int &target = next[2 * static_cast<std::size_t>(atLow && digit == low[i])
                                   + static_cast<std::size_t>(atHigh && digit == high[i])];
                if (target < 0)
                    target = i + 1 == low.size() ? to : grammar.addState();
                grammar.addEdge(states[kind], static_cast<std::uint8_t>(digit), static_cast<std::uint8_t>(digit),
                                target);
            }
        }
        states = next;
    }
}

/// 0 <= low <= high
void addMagnitudes(Grammar &grammar, int from, std::int64_t low, std::int64_t high, int to)
{
    for (std::int64_t least = 0, most = 9; least <= high; least = most + 1, most = most * 10 + 9)
        if (low <= most)
            addDigits(grammar, from, std::to_string(std::max(low, least)), std::to_string(std::min(high, most)), to);
}

/// What formats are made of. Each takes the state before and returns the one after.
class Parts {
public:
    explicit Parts(Grammar &grammar)
        : m_grammar(grammar)
    {
    }

    int text(int from, std::string_view text) { return m_grammar.literal(from, text); }
    /// Two digits, `low` to `high`.
    int two(int from, int low, int high)
    {
        const auto padded = [](int number) { return (number < 10 ? "0" : "") + std::to_string(number); };
        const int to = m_grammar.addState();
        addDigits(m_grammar, from, padded(low), padded(high), to);
        return to;
    }
    int number(int from, int low, int high)
    {
        const int to = m_grammar.addState();
        addMagnitudes(m_grammar, from, low, high, to);
        return to;
    }
    int hex(int from, int count)
    {
        for (int i = 0; i < count; ++i) {
            const int to = m_grammar.byte(from, '0', '9');
            m_grammar.addEdge(from, 'a', 'f', to);
            from = to;
        }
        return from;
    }
    int date(int from)
    {
        struct Month {
            std::string_view name;
            int days;
        };
        static constexpr std::array<Month, 12> months{{{"01", 31},
                                                       {"02", 28},
                                                       {"03", 31},
                                                       {"04", 30},
                                                       {"05", 31},
                                                       {"06", 30},
                                                       {"07", 31},
                                                       {"08", 31},
                                                       {"09", 30},
                                                       {"10", 31},
                                                       {"11", 30},
                                                       {"12", 31}}};
        const int month = text(number(from, 1000, 9999), "-");
        const int end = m_grammar.addState();
        for (const Month &one : months)
            m_grammar.addEmpty(two(text(text(month, one.name), "-"), 1, one.days), end);
        return end;
    }
    int time(int from)
    {
        const int minutes = text(two(from, 0, 23), ":");
        int at = two(text(two(minutes, 0, 59), ":"), 0, 59);
        const int zone = m_grammar.addState();
        m_grammar.addEmpty(at, zone);
        at = text(at, ".");
        for (int i = 0; i < mostFraction; ++i) {
            at = m_grammar.byte(at, '0', '9');
            m_grammar.addEmpty(at, zone);
        }
        const int end = text(zone, "Z");
        for (const char *sign : {"+", "-"})
            m_grammar.addEmpty(two(text(two(text(zone, sign), 0, 23), ":"), 0, 59), end);
        return end;
    }
    int uuid(int from)
    {
        from = hex(from, 8);
        for (const int count : {4, 4, 4, 12})
            from = hex(text(from, "-"), count);
        return from;
    }
    int ipv4(int from)
    {
        from = number(from, 0, 255);
        for (int i = 0; i < 3; ++i)
            from = number(text(from, "."), 0, 255);
        return from;
    }
    /// Letters and digits, with single `joints` between them; few, or weak models lose themselves in it.
    int word(int from, std::string_view joints)
    {
        constexpr int most = 20;
        const int end = m_grammar.addState();
        for (int i = 0; i < most; ++i) {
            const int character = m_grammar.addState();
            addAlphanumeric(from, character);
            m_grammar.addEmpty(character, end);
            from = m_grammar.addState();
            m_grammar.addEmpty(character, from);
            for (const char joint : joints)
                m_grammar.addEdge(character, static_cast<std::uint8_t>(joint), static_cast<std::uint8_t>(joint), from);
        }
        return end;
    }
    int email(int from)
    {
        int last = text(word(text(word(from, "._-+"), "@"), "-."), ".");
        const int end = m_grammar.addState();
        constexpr int most = 6;
        for (int i = 1; i <= most; ++i) {
            last = m_grammar.byte(last, 'a', 'z');
            if (i > 1)
                m_grammar.addEmpty(last, end);
        }
        return end;
    }

private:
    void addAlphanumeric(int from, int to)
    {
        m_grammar.addEdge(from, '0', '9', to);
        m_grammar.addEdge(from, 'A', 'Z', to);
        m_grammar.addEdge(from, 'a', 'z', to);
    }

    static constexpr int mostFraction = 6;
    Grammar &m_grammar;
};

} // namespace

void addIntegers(Grammar &grammar, int from, std::int64_t low, std::int64_t high, int to)
{
    if (low < 0)
        addMagnitudes(grammar, grammar.byte(from, '-', '-'), std::max<std::int64_t>(-high, 1), -low, to);
    if (high >= 0)
        addMagnitudes(grammar, from, std::max<std::int64_t>(low, 0), high, to);
}

bool addFormat(Grammar &grammar, int from, std::string_view format, int to)
{
    Parts parts(grammar);
    int at = grammar.byte(from, '"', '"');
    if (format == "date")
        at = parts.date(at);
    else if (format == "time")
        at = parts.time(at);
    else if (format == "date-time")
        at = parts.time(parts.text(parts.date(at), "T"));
    else if (format == "uuid")
        at = parts.uuid(at);
    else if (format == "ipv4")
        at = parts.ipv4(at);
    else if (format == "email")
        at = parts.email(at);
    else
        return false;
    grammar.addEdge(at, '"', '"', to);
    return true;
}

} // namespace engine
