// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/dtype.h"

#include <array>
#include <cstdint>
#include <cstring>

/// Expansion of single blocks, shared by the files of dequantize(). Scale products are rounded to float32 before they
/// meet the quants and nothing is fused, so that every value equals the reference bit for bit.
namespace kernels::blocks {

/// The 16 levels of IQ4_NL and IQ4_XS. Source: ggml, kvalues_iq4nl.
inline constexpr std::array<std::int8_t, 16> iq4Values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                          1,    13,   25,  38,  53,  69,  89,  113};

/// The numbers of E2M1 doubled, so that they are whole. Source: OCP Microscaling Formats 1.0.
inline constexpr std::array<std::int8_t, 16> doubledE2m1 = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// The half-precision number at `source`, any alignment.
[[nodiscard]] inline float loadHalf(const std::uint8_t *source)
{
    std::uint16_t half = 0;
    std::memcpy(&half, source, sizeof half);
    return halfToFloat(half);
}

/// One block of 256 elements each; `block` has info(type).blockBytes bytes.
void expandQ2_K(const std::uint8_t *block, float *target);
void expandQ3_K(const std::uint8_t *block, float *target);
void expandQ4_K(const std::uint8_t *block, float *target);
void expandQ5_K(const std::uint8_t *block, float *target);
void expandQ6_K(const std::uint8_t *block, float *target);
void expandIQ4_XS(const std::uint8_t *block, float *target);

} // namespace kernels::blocks
