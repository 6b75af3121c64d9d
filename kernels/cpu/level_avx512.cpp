// SPDX-License-Identifier: GPL-3.0-or-later
// What AVX-512 improves over the AVX2 level: float products, with all 16 rows of a panel in one register.
#include "kernels/cpu/level.h"

#include <immintrin.h>

namespace kernels {

namespace {

using Z = __m512;

constexpr int prefetchBytes = 4096;
constexpr int widenFromRows = 6; // fewer rows convert in registers what they need once
constexpr int mostRows = 12;     // accumulators that cover the latency of fma twice over

/// Sixteen numbers of a stored type as floats.
template<PanelValues V> inline __attribute__((always_inline)) Z sixteen(const void *source, std::int64_t index)
{
    if constexpr (V == PanelValues::Float)
        return _mm512_loadu_ps(static_cast<const float *>(source) + index);
    const __m256i bits =
        _mm256_loadu_si256(reinterpret_cast<const __m256i *>(static_cast<const std::uint16_t *>(source) + index));
    if constexpr (V == PanelValues::Half)
        return _mm512_cvtph_ps(bits);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

/// R rows x 16 columns, k ascending.
template<PanelValues V, int R>
__attribute__((noinline)) void tile(const void *w, std::int64_t wStride, int count, const float *a,
                                    std::int64_t aStride, float *out, std::int64_t outStride, bool accumulate)
{
    constexpr int size = V == PanelValues::Float ? 4 : 2;
    Z f[R];
#pragma GCC unroll 16
    for (int m = 0; m < R; ++m)
        f[m] = accumulate ? _mm512_loadu_ps(out + m * outStride) : _mm512_setzero_ps();
    for (int k = 0; k < count; ++k) {
        if constexpr (R == 1)
            _mm_prefetch(static_cast<const char *>(w) + k * wStride * size + prefetchBytes, _MM_HINT_T0);
        const Z column = sixteen<V>(w, k * wStride);
#pragma GCC unroll 16
        for (int m = 0; m < R; ++m)
            f[m] = _mm512_fmadd_ps(column, _mm512_set1_ps(a[m * aStride + k]), f[m]);
    }
#pragma GCC unroll 16
    for (int m = 0; m < R; ++m)
        _mm512_storeu_ps(out + m * outStride, f[m]);
}

template<PanelValues V>
void products(const void *w, std::int64_t wStride, int count, const float *a, std::int64_t aStride, int rows,
              float *out, std::int64_t outStride, bool accumulate)
{
    using Tile = void (*)(const void *, std::int64_t, int, const float *, std::int64_t, float *, std::int64_t, bool);
    static constexpr Tile tiles[mostRows + 1] = {nullptr,     tile<V, 1>,  tile<V, 2>, tile<V, 3>, tile<V, 4>,
                                                 tile<V, 5>,  tile<V, 6>,  tile<V, 7>, tile<V, 8>, tile<V, 9>,
                                                 tile<V, 10>, tile<V, 11>, tile<V, 12>};
    for (int m = 0; m < rows; m += mostRows) {
        const int step = rows - m < mostRows ? rows - m : mostRows;
        tiles[step](w, wStride, count, a + m * aStride, aStride, out + m * outStride, outStride, accumulate);
    }
}

void outerProducts(const float *w, std::int64_t wStride, int count, const float *a, std::int64_t aStride, int rows,
                   float *out, std::int64_t outStride, bool accumulate)
{
    products<PanelValues::Float>(w, wStride, count, a, aStride, rows, out, outStride, accumulate);
}

void floatPanel(const PanelLayout &layout, const std::uint8_t *panel, const float *x, std::int64_t stride, int rows,
                const PanelScratch &scratch, float *tile)
{
    const int columns = layout.columns;
    if (layout.values == PanelValues::Float)
        return products<PanelValues::Float>(panel, panelRows, columns, x, stride, rows, tile, panelRows, false);
    const bool coded = layout.values == PanelValues::Coded;
    if (rows < widenFromRows && !coded) {
        const auto run =
            layout.values == PanelValues::Half ? products<PanelValues::Half> : products<PanelValues::Brain>;
        return run(panel, panelRows, columns, x, stride, rows, tile, panelRows, false);
    }
    for (int start = 0; start < columns; start += floatSliceColumns) {
        const int count = columns - start < floatSliceColumns ? columns - start : floatSliceColumns;
        if (coded)
            widenCodedColumns(layout, panel, start, count, scratch.columns);
        else
            widenColumnsAvx2(layout.values, panel + static_cast<std::int64_t>(start) * panelRows * 2, count,
                             scratch.columns);
        products<PanelValues::Float>(scratch.columns, panelRows, count, x + start, stride, rows, tile, panelRows,
                                     start > 0);
    }
}

// exp as on AVX2 (vector_avx2.h), 16 at a time.
inline __attribute__((always_inline)) Z exponential(Z x)
{
    const Z lowest = _mm512_set1_ps(-87.0F);
    const Z clamped = _mm512_max_ps(lowest, _mm512_min_ps(_mm512_set1_ps(88.0F), x));
    const Z n = _mm512_roundscale_ps(_mm512_mul_ps(clamped, _mm512_set1_ps(1.44269504F)),
                                     _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    Z r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375F), clamped);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4F), r);
    Z p = _mm512_set1_ps(1.0F / 5040.0F);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F / 720.0F));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F / 120.0F));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F / 24.0F));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F / 6.0F));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5F));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F));
    const __m512i power = _mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23);
    return _mm512_maskz_mul_ps(_mm512_cmp_ps_mask(x, lowest, _CMP_NLT_UQ), p, _mm512_castsi512_ps(power));
}

float exponentials(float *scores, float shift, int n)
{
    const Z shifts = _mm512_set1_ps(shift);
    Z sum = _mm512_setzero_ps();
    for (int i = 0; i < n; i += 16) {
        const Z e = exponential(_mm512_sub_ps(_mm512_loadu_ps(scores + i), shifts));
        _mm512_storeu_ps(scores + i, e);
        sum = _mm512_add_ps(sum, e);
    }
    return _mm512_reduce_add_ps(sum);
}

float largest(const float *scores, int n)
{
    Z m = _mm512_loadu_ps(scores);
    for (int i = 16; i < n; i += 16)
        m = _mm512_max_ps(m, _mm512_loadu_ps(scores + i));
    return _mm512_reduce_max_ps(m);
}

void finishRows(const float *tile, int rows, const float *bias, int count, bool accumulate, float *target,
                std::int64_t stride)
{
    const auto mask = static_cast<__mmask16>((1U << count) - 1U);
    const Z added = bias != nullptr ? _mm512_maskz_loadu_ps(mask, bias) : _mm512_setzero_ps();
    for (int r = 0; r < rows; ++r) {
        Z value = _mm512_loadu_ps(tile + r * panelRows);
        if (bias != nullptr)
            value = _mm512_add_ps(value, added);
        if (accumulate)
            value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, target + r * stride));
        _mm512_mask_storeu_ps(target + r * stride, mask, value);
    }
}

double floatPeak(std::int64_t rounds)
{
    const Z a = _mm512_set1_ps(0.5F);
    Z sums[mostRows];
#pragma GCC unroll 16
    for (Z &sum : sums)
        sum = _mm512_setzero_ps();
    for (std::int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
        for (Z &sum : sums) {
            sum = _mm512_fmadd_ps(a, a, sum);
            __asm__("" : "+v"(sum));
        }
    }
#pragma GCC unroll 16
    for (const Z &sum : sums)
        __asm__ volatile("" : : "v"(sum)); // sums that nobody wants would not be worked out
    return static_cast<double>(rounds) * mostRows * 32;
}

} // namespace

LevelKernels avx512Kernels()
{
    LevelKernels kernels = avx2Kernels();
    kernels.floatPanel = floatPanel;
    kernels.outerProducts = outerProducts;
    kernels.exponentials = exponentials;
    kernels.largest = largest;
    kernels.finishRows = finishRows;
    kernels.floatPeak = floatPeak;
    addKvKernelsAvx512(kernels);
    return kernels;
}

} // namespace kernels
