// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/dtype.h"

#include <array>
#include <cstdint>

namespace kernels {

/// 32 weights of one row as the file stores them, numbers and scale parts still apart.
struct RawBlock {
    std::array<std::uint8_t, 32> quants{};    ///< stored numbers, before any offset or table
    std::uint16_t scale = 0;                  ///< fp16, or an E8M0 exponent
    std::uint16_t min = 0;                    ///< fp16
    std::array<std::int8_t, 2> factors{};     ///< of each half, K-quants; equal when a scale covers 32
    std::array<std::uint8_t, 2> minFactors{}; ///< of each half, K-quants
    float single = 0.0F;                      ///< scale of INT2..INT8
    std::uint8_t zero = 0;                    ///< of INT2..INT4
};

/// Block `index` (of 32 weights) of a quantized row. For K-quants `scale` and `min` are those of all 256 weights.
/// Source: ggml's block definitions.
[[nodiscard]] RawBlock readRawBlock(DType type, const std::uint8_t *row, std::int64_t index);

} // namespace kernels
