// SPDX-License-Identifier: GPL-3.0-or-later
// Products with float weights on AVX2.
#include "kernels/cpu/level.h"
#include "kernels/cpu/tiles_avx2.h"

namespace kernels {

namespace {

using F = __m256;
using I = __m256i;

constexpr int prefetchBytes = 4096;
constexpr int widenFromRows = 6; // fewer rows convert in registers what they need once

/// Eight numbers of a stored type as floats.
template<PanelValues V> inline __attribute__((always_inline)) F eight(const void *source, std::int64_t index)
{
    if constexpr (V == PanelValues::Half)
        return _mm256_cvtph_ps(
            _mm_loadu_si128(reinterpret_cast<const __m128i *>(static_cast<const std::uint16_t *>(source) + index)));
    if constexpr (V == PanelValues::Brain) {
        const __m128i bits =
            _mm_loadu_si128(reinterpret_cast<const __m128i *>(static_cast<const std::uint16_t *>(source) + index));
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
    }
    return _mm256_loadu_ps(static_cast<const float *>(source) + index);
}

/// R rows x 16 columns, k ascending.
template<PanelValues V, int R>
__attribute__((noinline)) void tile(const void *w, std::int64_t wStride, int count, const float *a,
                                    std::int64_t aStride, float *out, std::int64_t outStride, bool accumulate)
{
    constexpr int size = V == PanelValues::Float ? 4 : 2;
    F f[R][2];
#pragma GCC unroll 8
    for (int m = 0; m < R; ++m) {
        f[m][0] = accumulate ? _mm256_loadu_ps(out + m * outStride) : _mm256_setzero_ps();
        f[m][1] = accumulate ? _mm256_loadu_ps(out + m * outStride + 8) : _mm256_setzero_ps();
    }
    for (int k = 0; k < count; ++k) {
        if constexpr (R == 1)
            _mm_prefetch(static_cast<const char *>(w) + k * wStride * size + prefetchBytes, _MM_HINT_T0);
        const F w0 = eight<V>(w, k * wStride);
        const F w1 = eight<V>(w, k * wStride + 8);
#pragma GCC unroll 8
        for (int m = 0; m < R; ++m) {
            const F x = _mm256_set1_ps(a[m * aStride + k]);
            f[m][0] = _mm256_fmadd_ps(w0, x, f[m][0]);
            f[m][1] = _mm256_fmadd_ps(w1, x, f[m][1]);
        }
    }
#pragma GCC unroll 8
    for (int m = 0; m < R; ++m) {
        _mm256_storeu_ps(out + m * outStride, f[m][0]);
        _mm256_storeu_ps(out + m * outStride + 8, f[m][1]);
    }
}

template<PanelValues V>
void products(const void *w, std::int64_t wStride, int count, const float *a, std::int64_t aStride, int rows,
              float *out, std::int64_t outStride, bool accumulate)
{
    using Tile = void (*)(const void *, std::int64_t, int, const float *, std::int64_t, float *, std::int64_t, bool);
    static constexpr Tile tiles[7] = {nullptr, tile<V, 1>, tile<V, 2>, tile<V, 3>, tile<V, 4>, tile<V, 5>, tile<V, 6>};
    for (int m = 0; m < rows; m += 6) {
        const int step = rows - m < 6 ? rows - m : 6;
        tiles[step](w, wStride, count, a + m * aStride, aStride, out + m * outStride, outStride, accumulate);
    }
}

void outerProducts(const float *w, std::int64_t wStride, int count, const float *a, std::int64_t aStride, int rows,
                   float *out, std::int64_t outStride, bool accumulate)
{
    products<PanelValues::Float>(w, wStride, count, a, aStride, rows, out, outStride, accumulate);
}

template<PanelValues V> void widen(const void *source, int count, float *target)
{
    for (int i = 0; i < count * panelRows; i += 8)
        _mm256_storeu_ps(target + i, eight<V>(source, i));
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

} // namespace

void widenColumnsAvx2(PanelValues values, const void *source, int count, float *target)
{
    if (values == PanelValues::Half)
        widen<PanelValues::Half>(source, count, target);
    else
        widen<PanelValues::Brain>(source, count, target);
}

void addFloatKernelsAvx2(LevelKernels &kernels)
{
    kernels.floatPanel = floatPanel;
    kernels.outerProducts = outerProducts;
}

} // namespace kernels
