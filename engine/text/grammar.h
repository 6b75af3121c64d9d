// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace engine {

/// A language of byte strings: rules that may call each other, each a little network of states. A state goes on by a
/// byte, by nothing, or by all of another rule. Built once, then immutable; any thread.
class Grammar {
public:
    struct Edge {
        std::uint8_t low = 0;
        std::uint8_t high = 0; ///< both included
        int target = 0;
    };
    struct Call {
        int rule = 0;
        int target = 0; ///< state after the rule
    };
    struct State {
        std::vector<Edge> edges;
        std::vector<Call> calls;
        std::vector<int> empty; ///< states reached by nothing
        bool ends = false;      ///< of its rule
    };
    struct Rule {
        int start = 0;
        int end = 0;
    };

    static constexpr std::size_t maxStates = 100'000;

    /// A new rule with a start and an end and nothing between. The first one is the language.
    int addRule();
    /// \throws Error Refused when there are more than maxStates
    int addState();
    void addEdge(int from, std::uint8_t low, std::uint8_t high, int to);
    void addCall(int from, int rule, int to);
    void addEmpty(int from, int to);

    /// What follows `from`: each returns the state after it.
    int byte(int from, std::uint8_t low, std::uint8_t high);
    int literal(int from, std::string_view text);
    int call(int from, int rule);

    [[nodiscard]] const State &state(int index) const { return m_states[static_cast<std::size_t>(index)]; }
    [[nodiscard]] const Rule &rule(int index) const { return m_rules[static_cast<std::size_t>(index)]; }
    [[nodiscard]] std::size_t rules() const { return m_rules.size(); }
    /// Whether a rule can come to itself without a byte between, so that no reader of it would end.
    [[nodiscard]] bool isLeftRecursive() const;

private:
    [[nodiscard]] std::vector<int> firstCalls(int rule) const;

    std::vector<State> m_states;
    std::vector<Rule> m_rules;
};

} // namespace engine
