// SPDX-License-Identifier: GPL-3.0-or-later
// Products with weights in floats at twice the rate of fma: weights and activations in bfloat16, two columns an
// instruction. Sums add two products at a time, in another order than floatPanel does.
#include "kernels/cpu/level.h"

#include <immintrin.h>

namespace kernels {

namespace {

using I = __m512i;
using Z = __m512;

constexpr int mostRows = 12;
constexpr int sliceColumns = floatSliceColumns; ///< an even number

inline __attribute__((always_inline)) __m512bh asBfloats(I bits)
{
    return (__m512bh)bits;
}

inline __attribute__((always_inline)) I pairOf(const std::uint16_t *p)
{
    int value;
    __builtin_memcpy(&value, p, sizeof(value));
    return _mm512_set1_epi32(value);
}

/// R rows x 16 outputs; pairs [count, 16, 2]
template<int R>
__attribute__((noinline)) void tile(const std::uint16_t *pairs, int count, const std::uint16_t *x, std::int64_t stride,
                                    bool first, float *out)
{
    Z sums[R];
#pragma GCC unroll 16
    for (int m = 0; m < R; ++m)
        sums[m] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(out + m * panelRows);
    for (int p = 0; p < count; ++p) {
        I w = _mm512_load_si512(pairs + static_cast<std::int64_t>(p) * 2 * panelRows);
        __asm__("" : "+v"(w)); // one load for all rows
#pragma GCC unroll 16
        for (int m = 0; m < R; ++m)
            sums[m] = _mm512_dpbf16_ps(sums[m], asBfloats(w), asBfloats(pairOf(x + m * stride + 2 * p)));
    }
#pragma GCC unroll 16
    for (int m = 0; m < R; ++m)
        _mm512_storeu_ps(out + m * panelRows, sums[m]);
}

using Tile = void (*)(const std::uint16_t *, int, const std::uint16_t *, std::int64_t, bool, float *);
constexpr Tile tiles[mostRows + 1] = {nullptr, tile<1>, tile<2>, tile<3>,  tile<4>,  tile<5>, tile<6>,
                                      tile<7>, tile<8>, tile<9>, tile<10>, tile<11>, tile<12>};

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

/// Columns [start, start + count) of a panel as pairs; the last one has a zero beside it when it is alone.
void makePairs(const PanelLayout &layout, const std::uint8_t *panel, int start, int count, float *widened,
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

void bfloatPanel(const PanelLayout &layout, const std::uint8_t *panel, const std::uint16_t *x, std::int64_t stride,
                 int rows, const PanelScratch &scratch, float *out)
{
    auto *pairs = reinterpret_cast<std::uint16_t *>(scratch.lines); // 16 KiB of 32
    for (int start = 0; start < layout.columns; start += sliceColumns) {
        const int count = layout.columns - start < sliceColumns ? layout.columns - start : sliceColumns;
        makePairs(layout, panel, start, count, scratch.columns, pairs);
        for (int m = 0; m < rows; m += mostRows)
            tiles[rows - m < mostRows ? rows - m : mostRows](pairs, (count + 1) / 2, x + m * stride + start, stride,
                                                             start == 0, out + m * panelRows);
    }
}

void roundBfloat(const float *x, std::int64_t n, std::uint16_t *target)
{
    for (std::int64_t i = 0; i < n; i += 16) {
        const auto mask = static_cast<__mmask16>(n - i < 16 ? (1U << (n - i)) - 1U : 0xffffU);
        const __m256i rounded = (__m256i)_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, x + i));
        _mm256_mask_storeu_epi16(target + i, mask, rounded);
    }
}

} // namespace

void addBfloatKernels(LevelKernels &kernels)
{
    kernels.bfloatPanel = bfloatPanel;
    kernels.roundBfloat = roundBfloat;
}

} // namespace kernels
