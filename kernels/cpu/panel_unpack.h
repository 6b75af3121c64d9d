// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cpu/level.h"

#include <array>

namespace kernels {

/// Source of both tables: ggml's block definitions; the second is E2M1 doubled, so that its numbers are whole.
extern const std::array<std::int8_t, 16> iq4Numbers;
extern const std::array<std::int8_t, 16> doubledE2m1Numbers;

/// One scale of one row and the numbers that it goes with, offset and table applied.
struct PanelGroup {
    std::array<int, blockWidth> numbers; ///< layout.groupWidth of them
    float scale;
    float min; ///< 0 without one
    int zero;  ///< taken off the numbers when a weight is expanded, instead of adding `min`; 0 without one
};

/// Group `group` (of layout.groupWidth elements along k) of a row of a quantized panel.
[[nodiscard]] PanelGroup readPanelGroup(const PanelLayout &layout, const std::uint8_t *panel, int group, int row);
/// Bytes of one block's lines.
[[nodiscard]] int blockLineBytes(const PanelLayout &layout);
/// Element of a float panel.
[[nodiscard]] float panelFloat(PanelValues values, const std::uint8_t *panel, std::int64_t index);

} // namespace kernels
