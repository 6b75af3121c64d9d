// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/grammar.h"

#include "engine/api/error.h"

#include <string>
#include <unordered_set>

namespace engine {

int Grammar::addState()
{
    if (m_states.size() >= maxStates)
        throw Error(ErrorCode::Refused,
                    "the schema needs more than " + std::to_string(maxStates)
                        + " states; fewer or smaller minItems, maxItems, minLength, maxLength or enum are wanted");
    m_states.emplace_back();
    return static_cast<int>(m_states.size()) - 1;
}

int Grammar::addRule()
{
    Rule rule;
    rule.start = addState();
    rule.end = addState();
    m_states.back().ends = true;
    m_rules.push_back(rule);
    return static_cast<int>(m_rules.size()) - 1;
}

void Grammar::addEdge(int from, std::uint8_t low, std::uint8_t high, int to)
{
    m_states[static_cast<std::size_t>(from)].edges.push_back({low, high, to});
}

void Grammar::addCall(int from, int rule, int to)
{
    m_states[static_cast<std::size_t>(from)].calls.push_back({rule, to});
}

void Grammar::addEmpty(int from, int to)
{
    m_states[static_cast<std::size_t>(from)].empty.push_back(to);
}

int Grammar::byte(int from, std::uint8_t low, std::uint8_t high)
{
    const int to = addState();
    addEdge(from, low, high, to);
    return to;
}

int Grammar::literal(int from, std::string_view text)
{
    for (const char c : text)
        from = byte(from, static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c));
    return from;
}

int Grammar::call(int from, int rule)
{
    const int to = addState();
    addCall(from, rule, to);
    return to;
}

/// Rules that can be called before a byte was read. No rule is empty, so what follows a call need not be looked at.
std::vector<int> Grammar::firstCalls(int rule) const
{
    std::vector<int> calls;
    std::vector<int> open{m_rules[static_cast<std::size_t>(rule)].start};
    std::unordered_set<int> seen(open.begin(), open.end());
    while (!open.empty()) {
        const State &state = m_states[static_cast<std::size_t>(open.back())];
        open.pop_back();
        for (const Call &one : state.calls)
            calls.push_back(one.rule);
        for (const int next : state.empty)
            if (seen.insert(next).second)
                open.push_back(next);
    }
    return calls;
}

bool Grammar::isLeftRecursive() const
{
    // Rules whose first calls are all known to end are taken away until none is left, or none can be taken.
    std::vector<std::vector<int>> callers(m_rules.size());
    std::vector<std::size_t> open(m_rules.size());
    std::vector<int> ready;
    for (std::size_t rule = 0; rule < m_rules.size(); ++rule) {
        const std::vector<int> calls = firstCalls(static_cast<int>(rule));
        for (const int called : calls)
            callers[static_cast<std::size_t>(called)].push_back(static_cast<int>(rule));
        open[rule] = calls.size();
        if (calls.empty())
            ready.push_back(static_cast<int>(rule));
    }
    std::size_t taken = 0;
    while (!ready.empty()) {
        const auto rule = static_cast<std::size_t>(ready.back());
        ready.pop_back();
        ++taken;
        for (const int caller : callers[rule])
            if (--open[static_cast<std::size_t>(caller)] == 0)
                ready.push_back(caller);
    }
    return taken < m_rules.size();
}

} // namespace engine
