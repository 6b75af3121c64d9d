// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/character_set.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace engine {

/// Where a pattern can be in a text: states that go on by a character of a set, or by nothing, which may be allowed
/// only where the text begins or ends.
struct TextNetwork {
    enum class Place : std::uint8_t { Anywhere, Begin, End };
    struct State {
        std::vector<std::pair<int, int>> sets;   ///< index in `sets` and state after it
        std::vector<std::pair<Place, int>> free; ///< state that is reached by nothing there
    };
    std::vector<CharacterSet> sets;
    std::vector<State> states;
    int start = 0;
    int end = 0; ///< whatever follows, the text fits
};

/// How much work one schema may make, so that none holds up those who wait behind it.
class TextBudget {
public:
    /// \throws Error Refused when it is used up, which is after about a quarter of a second
    void take(std::size_t steps);

private:
    std::size_t m_left = 4'000'000;
};

/// A set of texts that a machine without memory can tell: from each state one state follows for each of `classes`,
/// which part all characters, or none. A value.
class TextLanguage {
public:
    static constexpr std::size_t maxStates = 20'000;
    static constexpr int dead = -1;
    struct State {
        std::vector<int> next; ///< [classes]
        bool accepts = false;
    };

    /// The texts that `network` fits. \throws Error Refused when more than maxStates are needed, as below
    TextLanguage(const TextNetwork &network, TextBudget &budget);
    [[nodiscard]] static TextLanguage ofText(std::string_view text, TextBudget &budget); ///< \pre it is valid UTF-8
    [[nodiscard]] static TextLanguage ofLength(std::int64_t least, std::optional<std::int64_t> most);

    [[nodiscard]] TextLanguage intersected(const TextLanguage &other, TextBudget &budget) const;
    [[nodiscard]] TextLanguage complement() const;

    [[nodiscard]] bool empty() const { return m_states.empty(); }
    [[nodiscard]] bool contains(std::string_view text) const;
    [[nodiscard]] std::int64_t shortest() const;               ///< characters \pre not empty
    [[nodiscard]] std::optional<std::int64_t> longest() const; ///< nothing when there is no limit

    [[nodiscard]] const std::vector<CharacterSet> &classes() const { return m_classes; }
    /// The first one is where texts begin; from all of them an end can be reached.
    [[nodiscard]] const std::vector<State> &states() const { return m_states; }

private:
    TextLanguage() = default;
    int addState(bool accepts);
    void trim();

    std::vector<CharacterSet> m_classes;
    std::vector<State> m_states;
};

} // namespace engine
