// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/json_restricted.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string>
#include <utility>

namespace engine {
namespace {

constexpr int dead = -1;

/// Numbers of one length: a prefix may be that of the least, of the greatest, of both or of neither.
void addDigits(Grammar &grammar, int from, const std::string &low, const std::string &high, int to)
{
    std::array<int, 4> states{dead, dead, dead, from}; // by 2 * (prefix of low) + (prefix of high)
    for (std::size_t i = 0; i < low.size(); ++i) {
        std::array<int, 4> next{dead, dead, dead, dead};
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

/// Calls `use` with the least and the greatest number of each length. \pre 0 <= low <= high
template<typename Use> void byLength(std::int64_t low, std::int64_t high, const Use &use)
{
    for (std::int64_t least = 0, most = 9; least <= high; least = most + 1, most = most * 10 + 9)
        if (low <= most)
            use(std::to_string(std::max(low, least)), std::to_string(std::min(high, most)));
}

void addMagnitudes(Grammar &grammar, int from, std::int64_t low, std::int64_t high, int to)
{
    byLength(low, high,
             [&](const std::string &least, const std::string &most) { addDigits(grammar, from, least, most, to); });
}

/// Multiples of one factor, digit by digit with the remainder. States from which none can be reached are not made.
class Multiples {
public:
    Multiples(Grammar &grammar, std::int64_t factor, int to)
        : m_grammar(grammar)
        , m_factor(factor)
        , m_to(to)
    {
    }

    /// False when there is none. \pre 0 <= low <= high
    bool add(int from, std::int64_t low, std::int64_t high)
    {
        bool any = false;
        byLength(low, high, [&](const std::string &least, const std::string &most) {
            m_low = least;
            m_high = most;
            if (const int state = bounded(0, true, true, 0); state != dead) {
                m_grammar.addEmpty(from, state);
                any = true;
            }
        });
        return any;
    }

private:
    [[nodiscard]] std::int64_t after(std::int64_t rest, char digit) const
    {
        return (rest * 10 + (digit - '0')) % m_factor;
    }
    void lead(int &state, char digit, int target)
    {
        if (target == dead)
            return;
        if (state == dead)
            state = m_grammar.addState();
        m_grammar.addEdge(state, static_cast<std::uint8_t>(digit), static_cast<std::uint8_t>(digit), target);
    }

    /// `left` more digits of any kind.
    int unbounded(std::size_t left, std::int64_t rest) // NOLINT(misc-no-recursion): 16 digits at most
    {
        if (left == 0)
            return rest == 0 ? m_to : dead;
        if (const auto known = m_known.find({left, rest}); known != m_known.end())
            return known->second;
        int state = dead;
        for (char digit = '0'; digit <= '9'; ++digit)
            lead(state, digit, unbounded(left - 1, after(rest, digit)));
        m_known[{left, rest}] = state;
        return state;
    }

    /// Behind the first digits of the least or the greatest number.
    int bounded(std::size_t at, bool atLow, bool atHigh, std::int64_t rest) // NOLINT(misc-no-recursion)
    {
        if (!atLow && !atHigh)
            return unbounded(m_low.size() - at, rest);
        if (at == m_low.size())
            return rest == 0 ? m_to : dead;
        int state = dead;
        for (char digit = atLow ? m_low[at] : '0'; digit <= (atHigh ? m_high[at] : '9'); ++digit)
            lead(state, digit,
                 bounded(at + 1, atLow && digit == m_low[at], atHigh && digit == m_high[at], after(rest, digit)));
        return state;
    }

    Grammar &m_grammar;
    std::int64_t m_factor;
    int m_to;
    std::string m_low;
    std::string m_high;
    std::map<std::pair<std::size_t, std::int64_t>, int> m_known;
};

/// A number without its sign.
struct Decimal {
    std::int64_t whole = 0;
    std::string fraction; ///< without zeros at the end
    bool exclusive = false;
};

Decimal decimalOf(double value, bool exclusive)
{
    std::array<char, 400> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed).ptr;
    const std::string digits(text.data(), end);
    const std::size_t point = digits.find('.');
    return {std::stoll(digits.substr(0, point)), point == std::string::npos ? std::string() : digits.substr(point + 1),
            exclusive};
}

/// The fractions behind a whole part that may equal that of a bound.
class Fractions {
public:
    Fractions(Grammar &grammar, const Decimal *low, const Decimal *high, int to)
        : m_grammar(grammar)
        , m_low(low)
        , m_high(high)
        , m_to(to)
        , m_digits(mostDigits)
    {
        // A bound of more digits is kept apart from its neighbours by one digit more.
        for (const Decimal *bound : {low, high})
            if (bound)
                m_digits = std::max(m_digits, bound->fraction.size() + 1);
    }

    /// Adds what may follow the whole part, nothing too. False when nothing may.
    bool add(int from)
    {
        const bool none = mayEnd(0, m_low != nullptr, m_high != nullptr);
        if (none)
            m_grammar.addEmpty(from, m_to);
        const int state = after(0, m_low != nullptr, m_high != nullptr);
        if (state != dead)
            m_grammar.addEmpty(m_grammar.byte(from, '.', '.'), state);
        return none || state != dead;
    }

private:
    static constexpr std::size_t mostDigits = 16;

    /// Whether a number that has the first `at` digits of a bound, zeros behind them, is within it.
    [[nodiscard]] bool mayEnd(std::size_t at, bool atLow, bool atHigh) const
    {
        const bool belowLow = atLow && (at < m_low->fraction.size() || m_low->exclusive);
        const bool aboveHigh = atHigh && at >= m_high->fraction.size() && m_high->exclusive;
        return !belowLow && !aboveHigh;
    }
    static char digitOf(const Decimal &bound, std::size_t at)
    {
        return at < bound.fraction.size() ? bound.fraction[at] : '0';
    }

    /// A state with all digits that may be the one at `at`, or dead.
    int after(std::size_t at, bool atLow, bool atHigh) // NOLINT(misc-no-recursion): as many levels as digits
    {
        if (at == m_digits)
            return dead;
        int &known = m_known[{at, 2 * static_cast<int>(atLow) + static_cast<int>(atHigh)}];
        if (known != 0)
            return known;
        int state = dead;
        const char first = atLow ? digitOf(*m_low, at) : '0';
        const char last = atHigh ? digitOf(*m_high, at) : '9';
        for (char digit = first; digit <= last; ++digit) {
            const bool stillLow = atLow && digit == first;
            const bool stillHigh = atHigh && digit == last;
            const bool ends = mayEnd(at + 1, stillLow, stillHigh);
            const int more = after(at + 1, stillLow, stillHigh);
            if (!ends && more == dead)
                continue;
            state = state == dead ? m_grammar.addState() : state;
            const auto byte = static_cast<std::uint8_t>(digit);
            if (ends)
                m_grammar.addEdge(state, byte, byte, m_to);
            if (more != dead)
                m_grammar.addEdge(state, byte, byte, more);
        }
        m_known[{at, 2 * static_cast<int>(atLow) + static_cast<int>(atHigh)}] = state;
        return state;
    }

    Grammar &m_grammar;
    const Decimal *m_low;
    const Decimal *m_high;
    int m_to;
    std::size_t m_digits;
    std::map<std::pair<std::size_t, int>, int> m_known;
};

/// Numbers without a sign between two bounds.
bool addUnsigned(Grammar &grammar, int from, const Decimal &low, const Decimal &high, int to)
{
    if (low.whole > high.whole)
        return false;
    const auto addWhole = [&](std::int64_t number, const Decimal *least, const Decimal *most) {
        const int behind = grammar.addState(); // led to only when something follows
        const bool any = Fractions(grammar, least, most, to).add(behind);
        if (any)
            grammar.addEmpty(grammar.literal(from, std::to_string(number)), behind);
        return any;
    };
    if (low.whole == high.whole)
        return addWhole(low.whole, &low, &high);
    bool any = addWhole(low.whole, &low, nullptr);
    any = addWhole(high.whole, nullptr, &high) || any;
    if (low.whole + 1 < high.whole) {
        const int behind = grammar.addState();
        addMagnitudes(grammar, from, low.whole + 1, high.whole - 1, behind);
        any = Fractions(grammar, nullptr, nullptr, to).add(behind) || any;
    }
    return any;
}

} // namespace

void addIntegers(Grammar &grammar, int from, std::int64_t low, std::int64_t high, int to)
{
    if (low < 0)
        addMagnitudes(grammar, grammar.byte(from, '-', '-'), std::max<std::int64_t>(-high, 1), -low, to);
    if (high >= 0)
        addMagnitudes(grammar, from, std::max<std::int64_t>(low, 0), high, to);
}

bool addMultiples(Grammar &grammar, int from, std::int64_t low, std::int64_t high, std::int64_t factor, int to)
{
    Multiples multiples(grammar, factor, to);
    bool any = false;
    if (low < 0) {
        const int minus = grammar.addState();
        any = multiples.add(minus, std::max<std::int64_t>(-high, 1), -low);
        if (any)
            grammar.addEdge(from, '-', '-', minus);
    }
    return (high >= 0 && multiples.add(from, std::max<std::int64_t>(low, 0), high)) || any;
}

bool addDecimals(Grammar &grammar, int from, std::optional<NumberBound> low, std::optional<NumberBound> high, int to)
{
    const Decimal far{mostInteger, {}, false};
    const Decimal zero{0, {}, false};
    bool any = false;
    if (!low || low->value < 0) { // the greatest of them is the one nearest to 0
        const int minus = grammar.addState();
        const Decimal nearest =
            high && high->value < 0 ? decimalOf(-high->value, high->exclusive) : Decimal{0, {}, true};
        any = addUnsigned(grammar, minus, nearest, low ? decimalOf(-low->value, low->exclusive) : far, to);
        if (any)
            grammar.addEdge(from, '-', '-', minus);
    }
    if (!high || high->value >= 0) {
        const Decimal least = low && low->value >= 0 ? decimalOf(low->value, low->exclusive) : zero;
        any = addUnsigned(grammar, from, least, high ? decimalOf(high->value, high->exclusive) : far, to) || any;
    }
    return any;
}

} // namespace engine
