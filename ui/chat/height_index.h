// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <vector>

namespace ui {

/// Sums of block heights: append, change, drop from the end and find by position, each in O(log n).
/// A Fenwick tree. Heights are pixels. Thread: the UI.
class HeightIndex {
public:
    void append(double height);
    void set(int index, double height);
    /// Keeps the first `count` heights.
    void truncate(int count);
    [[nodiscard]] double at(int index) const { return m_values[static_cast<std::size_t>(index)]; }
    /// Sum of [0, index).
    [[nodiscard]] double before(int index) const;
    /// The block that covers `y`, clamped to the first and last; -1 when there is none.
    [[nodiscard]] int find(double y) const;
    [[nodiscard]] double total() const { return before(size()); }
    [[nodiscard]] int size() const { return static_cast<int>(m_values.size()); }

private:
    std::vector<double> m_values;
    std::vector<double> m_tree{0};
};

} // namespace ui
