// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/text_language.h"

#include "engine/api/error.h"
#include "engine/text/utf8.h"

#include <algorithm>
#include <map>
#include <string>

namespace engine {
namespace {

using Set = std::vector<int>; // sorted states of a network

constexpr std::size_t maxEntries = 2'000'000; // of the tables of a machine

[[noreturn]] void refuseSize()
{
    throw Error(ErrorCode::Refused,
                "it needs more than " + std::to_string(TextLanguage::maxStates)
                    + " states; a simpler or shorter one is wanted");
}

/// Reads a network: sets of its states become states.
class Subsets {
public:
    Subsets(const TextNetwork &network, const std::vector<CharacterSet> &classes, TextBudget &budget)
        : m_network(network)
        , m_members(network.sets.size())
        , m_budget(budget)
    {
        for (std::size_t set = 0; set < network.sets.size(); ++set)
            for (std::size_t part = 0; part < classes.size(); ++part)
                if (network.sets[set].contains(classes[part].ranges().front().first))
                    m_members[set].push_back(static_cast<int>(part));
    }

    /// All that `seeds` reach by nothing. A set that holds the end is the end alone: nothing can change that any more.
    [[nodiscard]] Set closure(Set seeds, bool atBegin) const
    {
        Set all = reach(std::move(seeds), atBegin, false);
        return std::ranges::binary_search(all, m_network.end) ? Set{m_network.end} : all;
    }
    [[nodiscard]] bool accepts(const Set &closed, bool atBegin) const
    {
        return std::ranges::binary_search(reach(closed, atBegin, true), m_network.end);
    }
    /// By class, the states that follow directly.
    [[nodiscard]] std::map<int, Set> step(const Set &closed) const
    {
        std::map<int, Set> after;
        for (const int state : closed)
            for (const auto &[set, target] : m_network.states[static_cast<std::size_t>(state)].sets)
                for (const int part : m_members[static_cast<std::size_t>(set)]) {
                    after[part].push_back(target);
                    m_budget.take(1);
                }
        return after;
    }

private:
    [[nodiscard]] Set reach(Set open, bool atBegin, bool atEnd) const
    {
        std::vector<bool> seen(m_network.states.size());
        m_budget.take(seen.size() / 64);
        Set all;
        for (const int state : open)
            seen[static_cast<std::size_t>(state)] = true;
        std::ranges::sort(open);
        open.erase(std::unique(open.begin(), open.end()), open.end());
        while (!open.empty()) {
            const int state = open.back();
            open.pop_back();
            all.push_back(state);
            m_budget.take(1);
            for (const auto &[place, target] : m_network.states[static_cast<std::size_t>(state)].free) {
                const bool passes = place == TextNetwork::Place::Anywhere
                    || (place == TextNetwork::Place::Begin && atBegin) || (place == TextNetwork::Place::End && atEnd);
                if (!passes || seen[static_cast<std::size_t>(target)])
                    continue;
                seen[static_cast<std::size_t>(target)] = true;
                open.push_back(target);
            }
        }
        std::ranges::sort(all);
        return all;
    }

    const TextNetwork &m_network;
    std::vector<std::vector<int>> m_members; ///< by set, the classes in it
    TextBudget &m_budget;
};

} // namespace

void TextBudget::take(std::size_t steps)
{
    if (steps > m_left)
        throw Error(ErrorCode::Refused, "the schema takes too long to read up to here; a simpler one is wanted");
    m_left -= steps;
}

int TextLanguage::addState(bool accepts)
{
    if (m_states.size() >= maxStates || (m_states.size() + 1) * m_classes.size() > maxEntries)
        refuseSize();
    m_states.push_back({std::vector<int>(m_classes.size(), dead), accepts});
    return static_cast<int>(m_states.size()) - 1;
}

TextLanguage::TextLanguage(const TextNetwork &network, TextBudget &budget)
    : m_classes(partition(network.sets))
{
    const Subsets subsets(network, m_classes, budget);
    std::map<std::pair<Set, bool>, int> known; // the beginning may accept what the same states later do not
    std::vector<Set> sets;
    const auto stateOf = [&](Set set, bool atBegin) {
        const bool accepts = subsets.accepts(set, atBegin);
        const auto [at, isNew] = known.try_emplace({set, accepts}, 0);
        if (isNew) {
            at->second = addState(accepts);
            sets.push_back(std::move(set));
        }
        return at->second;
    };
    stateOf(subsets.closure({network.start}, true), true);
    for (std::size_t state = 0; state < sets.size(); ++state) {
        if (sets[state] == Set{network.end}) {
            std::ranges::fill(m_states[state].next, static_cast<int>(state));
            continue;
        }
        for (auto &[part, after] : subsets.step(Set(sets[state]))) {
            const int target = stateOf(subsets.closure(std::move(after), false), false);
            m_states[state].next[static_cast<std::size_t>(part)] = target;
        }
    }
    trim();
}

TextLanguage TextLanguage::ofText(std::string_view text, TextBudget &budget)
{
    TextNetwork network;
    network.states.resize(1);
    for (std::size_t at = 0; at < text.size();) {
        const utf8::Character character = utf8::decode(text, at);
        at += static_cast<std::size_t>(character.bytes);
        network.sets.push_back(CharacterSet({{character.code, character.code}}));
        network.states.back().sets.emplace_back(static_cast<int>(network.sets.size()) - 1,
                                                static_cast<int>(network.states.size()));
        network.states.emplace_back();
    }
    network.end = static_cast<int>(network.states.size());
    network.states.back().free.emplace_back(TextNetwork::Place::End, network.end);
    network.states.emplace_back();
    return TextLanguage(network, budget);
}

TextLanguage TextLanguage::ofLength(std::int64_t least, std::optional<std::int64_t> most)
{
    TextLanguage language;
    language.m_classes = {CharacterSet::all()};
    const std::int64_t last = most.value_or(least);
    for (std::int64_t length = 0; length <= last; ++length) {
        const int state = language.addState(length >= least);
        if (length > 0)
            language.m_states[static_cast<std::size_t>(state) - 1].next[0] = state;
    }
    if (!most)
        language.m_states.back().next[0] = static_cast<int>(last);
    return language;
}

TextLanguage TextLanguage::intersected(const TextLanguage &other, TextBudget &budget) const
{
    TextLanguage both;
    std::vector<std::pair<std::size_t, std::size_t>> parts;
    for (std::size_t a = 0; a < m_classes.size(); ++a)
        for (std::size_t b = 0; b < other.m_classes.size(); ++b)
            if (CharacterSet common = m_classes[a].intersected(other.m_classes[b]); !common.empty()) {
                both.m_classes.push_back(std::move(common));
                parts.emplace_back(a, b);
            }
    if (empty() || other.empty())
        return both;
    std::map<std::pair<int, int>, int> known;
    std::vector<std::pair<int, int>> pairs;
    const auto stateOf = [&](std::pair<int, int> pair) {
        const auto [at, isNew] = known.try_emplace(pair, 0);
        if (isNew) {
            at->second = both.addState(m_states[static_cast<std::size_t>(pair.first)].accepts
                                       && other.m_states[static_cast<std::size_t>(pair.second)].accepts);
            pairs.push_back(pair);
        }
        return at->second;
    };
    stateOf({0, 0});
    for (std::size_t state = 0; state < pairs.size(); ++state) {
        const auto [a, b] = pairs[state];
        budget.take(parts.size());
        for (std::size_t part = 0; part < parts.size(); ++part) {
            const int nextA = m_states[static_cast<std::size_t>(a)].next[parts[part].first];
            const int nextB = other.m_states[static_cast<std::size_t>(b)].next[parts[part].second];
            if (nextA != dead && nextB != dead) {
                const int target = stateOf({nextA, nextB});
                both.m_states[state].next[part] = target;
            }
        }
    }
    both.trim();
    return both;
}

TextLanguage TextLanguage::complement() const
{
    TextLanguage others = *this;
    if (others.m_classes.empty())
        others.m_classes = {CharacterSet::all()};
    const int sink = others.addState(false); // the only one where nothing begins
    for (State &state : others.m_states) {
        state.accepts = !state.accepts;
        std::ranges::replace(state.next, dead, sink);
    }
    others.trim();
    return others;
}

/// Takes away the states that no end can be reached from.
void TextLanguage::trim()
{
    std::vector<std::vector<int>> before(m_states.size());
    std::vector<int> open;
    std::vector<bool> alive(m_states.size());
    for (std::size_t state = 0; state < m_states.size(); ++state) {
        for (const int next : m_states[state].next)
            if (next != dead)
                before[static_cast<std::size_t>(next)].push_back(static_cast<int>(state));
        if (m_states[state].accepts) {
            alive[state] = true;
            open.push_back(static_cast<int>(state));
        }
    }
    while (!open.empty()) {
        const auto state = static_cast<std::size_t>(open.back());
        open.pop_back();
        for (const int one : before[state])
            if (!alive[static_cast<std::size_t>(one)]) {
                alive[static_cast<std::size_t>(one)] = true;
                open.push_back(one);
            }
    }
    std::vector<int> numbers(m_states.size(), dead);
    std::vector<State> kept;
    for (std::size_t state = 0; state < m_states.size() && alive.front(); ++state)
        if (alive[state]) {
            numbers[state] = static_cast<int>(kept.size());
            kept.push_back(std::move(m_states[state]));
        }
    for (State &state : kept)
        for (int &next : state.next)
            next = next == dead ? dead : numbers[static_cast<std::size_t>(next)];
    m_states = std::move(kept);
}

bool TextLanguage::contains(std::string_view text) const
{
    if (empty())
        return false;
    int state = 0;
    for (std::size_t at = 0; at < text.size();) {
        const utf8::Character character = utf8::decode(text, at);
        at += static_cast<std::size_t>(character.bytes);
        const auto part =
            std::ranges::find_if(m_classes, [&](const CharacterSet &one) { return one.contains(character.code); });
        state = part == m_classes.end()
            ? dead
            : m_states[static_cast<std::size_t>(state)].next[static_cast<std::size_t>(part - m_classes.begin())];
        if (state == dead)
            return false;
    }
    return m_states[static_cast<std::size_t>(state)].accepts;
}

std::int64_t TextLanguage::shortest() const
{
    std::vector<std::int64_t> length(m_states.size(), -1);
    std::vector<int> open{0};
    length[0] = 0;
    for (std::size_t i = 0; i < open.size(); ++i) {
        const auto state = static_cast<std::size_t>(open[i]);
        if (m_states[state].accepts)
            return length[state];
        for (const int next : m_states[state].next)
            if (next != dead && length[static_cast<std::size_t>(next)] < 0) {
                length[static_cast<std::size_t>(next)] = length[state] + 1;
                open.push_back(next);
            }
    }
    return 0;
}

std::optional<std::int64_t> TextLanguage::longest() const
{
    // States without open predecessors are taken away one by one; those in a circle stay.
    std::vector<std::size_t> open(m_states.size());
    for (const State &state : m_states)
        for (const int next : state.next)
            if (next != dead)
                ++open[static_cast<std::size_t>(next)];
    std::vector<std::int64_t> length(m_states.size());
    std::vector<int> ready;
    if (!m_states.empty() && open[0] == 0)
        ready.push_back(0);
    std::size_t taken = 0;
    std::int64_t most = 0;
    while (!ready.empty()) {
        const auto state = static_cast<std::size_t>(ready.back());
        ready.pop_back();
        ++taken;
        most = std::max(most, length[state]); // from every state an end follows, so the last one has it
        for (const int next : m_states[state].next) {
            if (next == dead)
                continue;
            const auto target = static_cast<std::size_t>(next);
            length[target] = std::max(length[target], length[state] + 1);
            if (--open[target] == 0)
                ready.push_back(next);
        }
    }
    return taken == m_states.size() ? std::optional(most) : std::nullopt;
}

} // namespace engine
