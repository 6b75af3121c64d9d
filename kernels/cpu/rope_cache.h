// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/ops.h"

#include <span>
#include <vector>

namespace kernels {

/// Cosines and sines of a step's positions. All layers of a step turn the same positions by the same frequencies, so
/// they are worked out once, in double, and kept until either changes.
class RopeCache {
public:
    void prepare(std::span<const int> positions, const RopeTable &table);
    /// Rotates the head at `head` by the position of token `token` of the last prepare().
    void rotate(std::int64_t token, float *head) const;

private:
    [[nodiscard]] bool holds(std::span<const int> positions, const RopeTable &table) const;

    RopeTable m_table;
    std::vector<int> m_positions;
    std::vector<float> m_cosines; ///< [tokens, rotaryDim / 2]
    std::vector<float> m_sines;
};

} // namespace kernels
