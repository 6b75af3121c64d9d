// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cpu/level.h"
#include "kernels/packed_weight.h"

namespace kernels {

/// The layout of one panel (16 rows) of a weight type. \pre columns is a multiple of the type's block size
[[nodiscard]] PanelLayout panelLayout(DType type, std::int64_t columns);

/// Fills one panel, which must be zero, from rows [firstRow, firstRow + 16) of `part` as far as they exist.
void packPanel(const WeightPart &part, const PanelLayout &layout, std::int64_t firstRow, std::uint8_t *panel);

/// Expands row `row` of a panel, bit for bit as `dequantize` would expand the source.
void expandPanelRow(const PanelLayout &layout, const std::uint8_t *panel, int row, float *target);

} // namespace kernels
