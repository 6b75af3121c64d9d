// SPDX-License-Identifier: GPL-3.0-or-later
// Products at twice the rate of fma: weights and activations in bfloat16, two columns an instruction. Sums add two
// products at a time, in another order than floatPanel does.
#include "kernels/cpu/bfloat_panels.h"

#include <immintrin.h>

namespace kernels {

namespace {

using I = __m512i;
using Z = __m512;

constexpr int mostRows = 12;

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

void bfloatPanel(const PanelLayout &layout, const std::uint8_t *panel, const std::uint16_t *x, std::int64_t stride,
                 int rows, const PanelScratch &scratch, float *out)
{
    const auto *pairs = reinterpret_cast<const std::uint16_t *>(scratch.lines + bfloatPairsAt);
    for (int start = 0; start < layout.columns; start += bfloatSliceColumns) {
        const int left = layout.columns - start;
        const int count = left < bfloatSliceColumns ? left : bfloatSliceColumns;
        makeBfloatPairs(layout, panel, start, count, scratch);
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
