// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

/// Finds stop strings in text that comes in pieces. Text that may be the start of one is held back until it is
/// proved not to be, so that no part of a stop string is ever shown. Of several, the one that ends first wins, and
/// of those that end together the longest.
///
/// Time is linear in the text. Thread: one caller. Source: Aho and Corasick 1975, "Efficient string matching".
class StopMatcher {
public:
    static constexpr std::size_t maxStrings = 64;
    static constexpr std::size_t maxBytes = 4096; ///< of one string

    /// Empty when the strings are allowed; else one sentence: too many, empty, too long, or no UTF-8.
    [[nodiscard]] static std::string check(const std::vector<std::string> &stops);

    /// \pre check(stops) is empty
    explicit StopMatcher(const std::vector<std::string> &stops);

    /// Takes more text and returns what can be shown. After a match nothing more is returned.
    [[nodiscard]] std::string append(std::string_view text);
    [[nodiscard]] bool matched() const { return m_matched; }
    /// What is held back, for the end of a text that did not match.
    [[nodiscard]] std::string flush();

private:
    struct Node {
        int child = -1;   // first
        int sibling = -1; // next child of the same parent
        int fail = 0;     // node of the longest proper suffix that begins a stop string
        int depth = 0;
        int match = 0; // bytes of the longest stop string that ends here, 0 = none
        char byte = 0;
    };

    void insert(std::string_view stop);
    void linkSuffixes();
    [[nodiscard]] int childOf(int node, char byte) const;
    [[nodiscard]] int step(int node, char byte) const;

    std::vector<Node> m_nodes;
    int m_state = 0;
    std::string m_held; // the text that m_state stands for
    bool m_matched = false;
};

} // namespace engine
