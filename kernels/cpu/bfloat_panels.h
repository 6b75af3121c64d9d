// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cpu/level.h"

/// Panels of any type as bfloat16, which two kinds of instructions multiply: AVX512-BF16 and tiles (AMX-BF16).
namespace kernels {

constexpr int bfloatSliceColumns = floatSliceColumns; ///< columns that are made at once; an even number

/// Where the pairs of a slice go: behind the lines that quantised blocks are taken apart to.
inline constexpr std::size_t bfloatPairsAt = std::size_t{bfloatSliceColumns} / blockWidth * 8 * lineBytes;
static_assert(bfloatPairsAt + std::size_t{bfloatSliceColumns} * panelRows * 2
              <= std::size_t{quantSliceBlocks} * 8 * lineBytes);

/// Columns [start, start + count) as pairs [(count + 1) / 2, 16, 2] at scratch.lines + bfloatPairsAt; the last column
/// has a zero beside it when it is alone. Weights are rounded to the nearest, even ones first.
/// \pre start is a multiple of bfloatSliceColumns, count at most that
void makeBfloatPairs(const PanelLayout &layout, const std::uint8_t *panel, int start, int count,
                     const PanelScratch &scratch);

} // namespace kernels
