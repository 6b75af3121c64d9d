// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <array>
#include <cstdint>

/// Groups of weights that the IQ1, IQ2 and IQ3 types refer to by number. Byte i of an entry is element i; only the
/// ternary groups have a sign of their own. Source: ggml's grids of the same lengths.
namespace kernels {

extern const std::array<std::uint64_t, 2048> ternaryGroups; ///< IQ1_S, IQ1_M: eight of -8, 0, 8
extern const std::array<std::uint64_t, 256> groups256;      ///< IQ2_XXS: eight of 8, 25, 43
extern const std::array<std::uint64_t, 512> groups512;      ///< IQ2_XS
extern const std::array<std::uint64_t, 1024> groups1024;    ///< IQ2_S
extern const std::array<std::uint32_t, 256> quads256;       ///< IQ3_XXS: four of 4, 12 .. 52, 62
extern const std::array<std::uint32_t, 512> quads512;       ///< IQ3_S: four of 1, 3 .. 15
extern const std::array<std::uint64_t, 256> signMasks;      ///< 0xff in byte i where bit i of the index is set

} // namespace kernels
