// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cpu/level.h"

#include <array>

namespace kernels {

/// Source of both tables: ggml's block definitions; the second is E2M1 doubled, so that its numbers are whole.
extern const std::array<std::int8_t, 16> iq4Numbers;
extern const std::array<std::int8_t, 16> doubledE2m1Numbers;

/// Stored number of row `row`, element `i` (0..31) of a block, with offset and table applied.
[[nodiscard]] int panelNumber(const PanelLayout &layout, const std::uint8_t *lines, int row, int i);
/// Scale of a group (of layout.groupWidth elements), and its minimum (0 without one).
[[nodiscard]] float panelScale(const PanelLayout &layout, const std::uint8_t *panel, std::int64_t group, int row);
[[nodiscard]] float panelMin(const PanelLayout &layout, const std::uint8_t *panel, std::int64_t group, int row);
/// Bytes of one block's lines.
[[nodiscard]] int blockLineBytes(const PanelLayout &layout);
/// Element of a float panel.
[[nodiscard]] float panelFloat(PanelValues values, const std::uint8_t *panel, std::int64_t index);

} // namespace kernels
