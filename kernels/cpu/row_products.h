// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>

namespace kernels {

struct PanelLayout;
struct QuantRows;
struct SecondTerms;

/// tile [16] = one row of activations x panelᵀ, second terms included, the same operations as quantPanel's. `next` is
/// fetched ahead. The panel is not Raw.
void rowProductsAvx512Vnni(const PanelLayout &layout, const std::uint8_t *panel, const std::uint8_t *next,
                           const QuantRows &x, const SecondTerms &second, float *tile);

} // namespace kernels
