// SPDX-License-Identifier: GPL-3.0-or-later
// Panels as pairs of columns in bfloat16.
#include "kernels/cpu/bfloat_panels.h"

#include <immintrin.h>

namespace kernels {

namespace {

using I = __m512i;
using Z = __m512;

/// Two columns of 16 floats as 16 pairs.
inline __attribute__((always_inline)) void storePairs(Z even, Z odd, std::uint16_t *target)
{
    const I low = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(even));
    const I high = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(odd));
    _mm512_store_si512(target, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
}

/// Two columns that are bfloat16 already.
inline __attribute__((always_inline)) void joinPairs(const std::uint16_t *even, const std::uint16_t *odd,
                                                     std::uint16_t *target)
{
    const I low = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(even)));
    const I high = odd != nullptr ? _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(odd)))
                                  : _mm512_setzero_si512();
    _mm512_store_si512(target, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
}

void pairsOfFloats(const PanelLayout &layout, const std::uint8_t *panel, int start, int count, float *widened,
                   std::uint16_t *pairs)
{
    const auto *halves = reinterpret_cast<const std::uint16_t *>(panel) + static_cast<std::int64_t>(start) * panelRows;
    if (layout.values == PanelValues::Brain) {
        for (int c = 0; c < count; c += 2)
            joinPairs(halves + c * panelRows, c + 1 < count ? halves + (c + 1) * panelRows : nullptr,
                      pairs + c * panelRows);
        return;
    }
    const auto *floats = reinterpret_cast<const float *>(panel) + static_cast<std::int64_t>(start) * panelRows;
    if (layout.values == PanelValues::Coded)
        widenCodedColumns(layout, panel, start, count, widened);
    else if (layout.values == PanelValues::Half)
        widenColumnsAvx2(layout.values, halves, count, widened);
    const float *source = layout.values == PanelValues::Float ? floats : widened;
    for (int c = 0; c < count; c += 2)
        storePairs(_mm512_loadu_ps(source + c * panelRows),
                   c + 1 < count ? _mm512_loadu_ps(source + (c + 1) * panelRows) : _mm512_setzero_ps(),
                   pairs + c * panelRows);
}

/// One line, 4 consecutive k of 16 rows as signed bytes: number x scale + min, then two pairs.
inline __attribute__((always_inline)) void pairsOfLine(I line, Z scale, Z min, std::uint16_t *pairs)
{
    Z columns[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        const I number = _mm512_srai_epi32(i == 3 ? line : _mm512_slli_epi32(line, 24 - 8 * i), 24);
        columns[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(number), scale, min);
    }
    storePairs(columns[0], columns[1], pairs);
    storePairs(columns[2], columns[3], pairs + 2 * panelRows);
}

void pairsOfQuants(const PanelLayout &layout, const std::uint8_t *panel, int start, int count,
                   const PanelScratch &scratch, std::uint16_t *pairs)
{
    const int first = start / blockWidth;
    const int blocks = count / blockWidth;
    const int groups = blockWidth / layout.groupWidth;
    const I offset = _mm512_set1_epi8(static_cast<char>(layout.integerOffset));
    unpackPanelAvx2(layout, panel, first, blocks, scratch.lines, scratch.scales, scratch.mins);
    const bool stored = layout.byteLines != 0; // as bytes already, which are not unpacked
    const std::uint8_t *block =
        stored ? panel + layout.linesAt + static_cast<std::int64_t>(first) * layout.blockBytes : scratch.lines;
    for (int b = 0; b < blocks; ++b, block += stored ? layout.blockBytes : 8 * lineBytes) {
        for (int line = 0; line < 8; ++line, pairs += 4 * panelRows) {
            const std::int64_t group = b * groups + line * groups / 8;
            const Z min = layout.hasMin ? _mm512_load_ps(scratch.mins + group * panelRows) : _mm512_setzero_ps();
            const I numbers = _mm512_loadu_si512(block + line * lineBytes);
            pairsOfLine(_mm512_sub_epi8(numbers, offset), _mm512_load_ps(scratch.scales + group * panelRows), min,
                        pairs);
        }
    }
}

} // namespace

void makeBfloatPairs(const PanelLayout &layout, const std::uint8_t *panel, int start, int count,
                     const PanelScratch &scratch)
{
    auto *pairs = reinterpret_cast<std::uint16_t *>(scratch.lines + bfloatPairsAt);
    if (layout.blocks == 0)
        pairsOfFloats(layout, panel, start, count, scratch.columns, pairs);
    else
        pairsOfQuants(layout, panel, start, count, scratch, pairs);
}

} // namespace kernels
