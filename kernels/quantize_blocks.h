// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/dtype.h"

#include <cstdint>
#include <cstring>

/// Quantization of single blocks, shared by the files of quantizeRow().
namespace kernels::blocks {

/// Writes one block from info(type).blockElements values and the weight of each one's squared error.
using BlockWriter = void (*)(const float *x, const float *weights, std::uint8_t *block);

/// Writers of the K-quants and IQ4_XS; null for other types.
[[nodiscard]] BlockWriter superBlockWriter(DType type);
/// Writers that round to nearest and look at no weights (Q8_0, MXFP4, TQ1_0, TQ2_0); null for other types.
[[nodiscard]] BlockWriter roundingWriter(DType type);

inline void storeHalf(std::uint8_t *target, std::uint16_t half)
{
    std::memcpy(target, &half, sizeof half);
}

/// Rounds a scale to fp16 in place and stores it.
inline void storeRounded(std::uint8_t *target, float &value)
{
    const std::uint16_t half = floatToHalf(value);
    value = halfToFloat(half);
    storeHalf(target, half);
}

} // namespace kernels::blocks
