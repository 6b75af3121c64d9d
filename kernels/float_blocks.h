// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/dtype.h"

#include <array>
#include <cstdint>

namespace kernels {

/// The numbers of E4M3 (FN: no infinity, NaN at 0x7f and 0xff, largest 448), by their byte.
/// Source: Micikevicius et al. 2022, arXiv:2209.05433, table 1.
extern const std::array<float, 256> e4m3Numbers;

/// The 16 levels of NF4. Source: Dettmers et al. 2023, arXiv:2305.14314, appendix E.
inline constexpr std::array<float, 16> nf4Levels = {-1.0F,
                                                    -0.6961928009986877F,
                                                    -0.5250730514526367F,
                                                    -0.39491748809814453F,
                                                    -0.28444138169288635F,
                                                    -0.18477343022823334F,
                                                    -0.09105003625154495F,
                                                    0.0F,
                                                    0.07958029955625534F,
                                                    0.16093020141124725F,
                                                    0.24611230194568634F,
                                                    0.33791524171829224F,
                                                    0.44070982933044434F,
                                                    0.5626170039176941F,
                                                    0.7229568362236023F,
                                                    1.0F};

/// The 16 levels of FP4 as bitsandbytes has it: a sign, two bits of exponent and one of mantissa, over 12.
/// Source: bitsandbytes functional.py, get_4bit_type.
inline constexpr std::array<float, 16> fp4Levels = {
    0.0F,  0.0625F / 12.0F,  8.0F / 12.0F,  1.0F,  4.0F / 12.0F,  6.0F / 12.0F,  2.0F / 12.0F,  3.0F / 12.0F,
    -0.0F, -0.0625F / 12.0F, -8.0F / 12.0F, -1.0F, -4.0F / 12.0F, -6.0F / 12.0F, -2.0F / 12.0F, -3.0F / 12.0F};

/// Expands one block to 32 floats.
using FloatBlockReader = void (*)(const std::uint8_t *block, float *target);

/// The reader of a type whose numbers are no small integers, and which therefore meets float activations; null for
/// all others. In memory: float32 scale, then
///   FP8    32 bytes of E4M3, FP8_E5M2 of E5M2; weight = number x scale
///   NF4    16 bytes, level j below and j + 16 above in byte j; weight = level x scale, which NF4_F16 and NF4_BF16
///          round to that type, as bitsandbytes does for models that were quantised in it; FP4 likewise
///   INT8Z  int16 zero, 32 unsigned bytes; weight = scale x (number - zero)
[[nodiscard]] FloatBlockReader floatBlockReader(DType type);

} // namespace kernels
