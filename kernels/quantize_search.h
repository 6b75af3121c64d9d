// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <array>
#include <cstdint>

/// Searches of scales and minimums that least change weighted squares of errors; shared by the quantizers.
namespace kernels::search {

constexpr int mostElements = 32; ///< of a group

/// Values and what the square of each one's error counts.
struct Group {
    const float *x = nullptr;
    const float *weights = nullptr;
    int count = 0; ///< a multiple of 8, at most mostElements
};

/// x ~ scale x number, low <= number <= high; a symmetric type. Returns the best scale, 0 for a group of zeros.
[[nodiscard]] float scaleOf(const Group &group, int low, int high);

struct ScaleAndMin {
    float scale = 0.0F;
    float min = 0.0F;
};

/// x ~ scale x number + min, 0 <= number <= high. `minBelowZero`: min <= 0, as K-quants store it.
[[nodiscard]] ScaleAndMin scaleAndMinOf(const Group &group, int high, bool minBelowZero);

/// Rounds (x - min) / scale to numbers in [low, high]; returns the weighted squared error.
float roundNumbers(const Group &group, ScaleAndMin fit, int low, int high, std::int8_t *numbers);

/// x ~ scale x table[number]; the table ascends. Returns the best scale.
[[nodiscard]] float scaleOfTable(const Group &group, const std::array<std::int8_t, 16> &table);
/// Nearest table entries at a scale; returns the weighted squared error.
float roundToTable(const Group &group, float scale, const std::array<std::int8_t, 16> &table, std::int8_t *numbers);

} // namespace kernels::search
