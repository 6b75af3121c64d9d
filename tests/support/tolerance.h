// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/dtype.h"

#include <span>

/// How close two computations of the same thing must be; every kernel test takes its limits from here.
namespace tolerance {

/// Sum of squared differences over sum of squared wanted values; infinity when a value is not finite on one side only.
[[nodiscard]] double nmse(std::span<const float> found, std::span<const float> wanted);
/// Largest absolute difference; NaN equals NaN.
[[nodiscard]] double largestDifference(std::span<const float> found, std::span<const float> wanted);

/// NMSE of a matrix product against double sums with activations that int8 holds exactly: float rounding alone.
constexpr double exactActivations = 1e-11;
/// NMSE of a matrix product against double sums of the float activations in [-1, 1): for quantized weights what int8
/// rounding leaves of numbers without outliers, a variance of 1/12 of a step of 1/127 next to one of 1/3, and a little.
[[nodiscard]] double product(kernels::DType weight);
/// NMSE of attention against double sums over the same stored keys and values.
constexpr double attention = 1e-11;
/// NMSE of row-wise operations.
constexpr double rowWise = 1e-12;

} // namespace tolerance
