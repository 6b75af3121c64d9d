// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <vector>

namespace engine {

/// Characters of Unicode by ranges that are sorted, apart from each other and without surrogates. A value.
class CharacterSet {
public:
    struct Range {
        char32_t first = 0;
        char32_t last = 0; ///< included
        auto operator<=>(const Range &) const = default;
    };

    CharacterSet() = default;
    explicit CharacterSet(std::vector<Range> ranges); ///< in any order, overlapping or not
    [[nodiscard]] static CharacterSet all();

    [[nodiscard]] const std::vector<Range> &ranges() const { return m_ranges; }
    [[nodiscard]] bool empty() const { return m_ranges.empty(); }
    [[nodiscard]] bool contains(char32_t code) const;
    [[nodiscard]] CharacterSet united(const CharacterSet &other) const;
    [[nodiscard]] CharacterSet intersected(const CharacterSet &other) const;
    [[nodiscard]] CharacterSet complement() const;
    auto operator<=>(const CharacterSet &) const = default;

private:
    std::vector<Range> m_ranges;
};

/// The parts that the borders of `sets` cut all characters into: every set is a union of some of them.
[[nodiscard]] std::vector<CharacterSet> partition(const std::vector<CharacterSet> &sets);

} // namespace engine
