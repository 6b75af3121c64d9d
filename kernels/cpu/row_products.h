// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>

namespace kernels {

struct LevelKernels;
struct Outliers;
struct PanelLayout;
struct PanelScratch;
struct QuantRows;

/// tile [16] = one row of activations x panelᵀ, outliers included, the same operations as quantPanel's. The panel
/// is not Raw.
void rowProductsAvx512Vnni(const PanelLayout &layout, const std::uint8_t *panel, const QuantRows &x,
                           const Outliers &outliers, int fetchBytes, float *tile);

/// quantPanel of avx512-vnni, for levels above it.
void quantPanelAvx512Vnni(const PanelLayout &layout, const std::uint8_t *panel, const QuantRows &x,
                          const Outliers &outliers, int rows, const PanelScratch &scratch, float *tile);

/// Bytes [count, 8, 64] of blocks, of which the first lies at `block`, of nibbles, bits, or both, offsets taken off and
/// tables looked up.
void unpackLinesAvx512Vnni(const PanelLayout &layout, const std::uint8_t *block, int count, std::uint8_t *lines);

/// The same as unsigned bytes: nibbles and numbers with a minimum as they are, others 128 above what is meant.
void unpackBytesAvx512Vnni(const PanelLayout &layout, const std::uint8_t *block, int count, std::uint8_t *lines);

/// quantPanelPair of avx512-vnni.
bool quantPairAvx512Vnni(const PanelLayout &layout, const std::uint8_t *const (&panels)[2], const QuantRows &x,
                         const Outliers &outliers, int rows, const PanelScratch (&scratch)[2],
                         float *const (&tiles)[2]);

/// Sets quantizeRow and roundRest.
void addRoundingAvx512Vnni(LevelKernels &kernels);

} // namespace kernels
