// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cpu/level.h"
#include "kernels/ops.h"

#include <array>
#include <span>
#include <vector>

namespace kernels {

/// Cosines and sines of a step's positions. All layers of a kind turn the same positions by the same frequencies, so
/// they are worked out once, in double, and kept until either changes; for two kinds, as networks with windows have.
class RopeCache {
public:
    void prepare(std::span<const int> positions, const RopeTable &table);
    /// Rotates the head at `head` by the position of token `token` of the last prepare().
    void rotate(const LevelKernels &level, std::int64_t token, float *head) const;

private:
    struct Entry {
        RopeTable table;
        std::vector<int> positions;
        std::vector<float> cosines; ///< [tokens, rotaryDim / 2]
        std::vector<float> sines;

        [[nodiscard]] bool holds(std::span<const int> wanted, const RopeTable &other) const;
        void fill(std::span<const int> wanted, const RopeTable &other);
    };

    std::array<Entry, 2> m_entries;
    std::size_t m_current = 0; ///< of the last prepare()
};

} // namespace kernels
