// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/dtype.h"

#include <cstddef>
#include <cstdint>

namespace kernels {

/// Whether quantizeRow can write the type: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K .. Q6_K, IQ4_NL, IQ4_XS,
/// MXFP4, TQ1_0, TQ2_0.
[[nodiscard]] bool canQuantize(DType type);

/// The largest magnitude that a weight of the type can have without becoming an infinity.
[[nodiscard]] float largestMagnitude(DType type);

/// Converts a row to `type`. `importance` [elements] or null says how much the square of each column's error counts
/// (mean squares of the activations that meet it); types with a search (Q4_0 .. Q5_1, K-quants, IQ4) choose scales and
/// minimums that make the weighted sum least, the others round to nearest as the `gguf` package does.
/// \pre elements is a multiple of the block size; every value is finite and at most largestMagnitude(type); the
/// importance is finite and not negative
void quantizeRow(DType type, const float *row, std::int64_t elements, const float *importance, std::byte *target);

} // namespace kernels
