// SPDX-License-Identifier: GPL-3.0-or-later
// Activations that are left out of their blocks, on AVX-512: the weights of a column are expanded once for all rows.
#include "kernels/cpu/level.h"

#include <immintrin.h>

namespace kernels {

namespace {

using I = __m512i;
using Z = __m512;

/// Numbers of column `k` (of 32) of the block at `block`.
template<bool Nibbles>
inline __attribute__((always_inline)) I numbersOf(const SliceNumbers &form, const std::uint8_t *block, unsigned k)
{
    const unsigned line = k / 4;
    I number;
    if constexpr (Nibbles) {
        const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(k % 4 * 8 + line / 4 * 4));
        const I pairs = _mm512_loadu_si512(block + line % 4 * lineBytes);
        number = _mm512_and_si512(_mm512_srl_epi32(pairs, shift), _mm512_set1_epi32(15));
    } else {
        const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(24 - k % 4 * 8));
        const I top = _mm512_sll_epi32(_mm512_loadu_si512(block + line * lineBytes), shift);
        number = form.isSigned ? _mm512_srai_epi32(top, 24) : _mm512_srli_epi32(top, 24);
    }
    return _mm512_sub_epi32(number, _mm512_set1_epi32(form.offset));
}

inline __attribute__((always_inline)) Z halves(const std::uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)));
}

template<bool Nibbles, bool Stored>
inline __attribute__((always_inline)) Z weightsOf(const PanelSlice &slice, const SliceNumbers &form, unsigned column)
{
    const unsigned block = column / blockWidth;
    const unsigned k = column % blockWidth;
    const std::uint8_t *lines = slice.lines + std::int64_t{block} * slice.bytesPerBlock;
    const std::uint8_t *stored = lines + (Nibbles ? 4 : 8) * lineBytes;
    const std::int64_t group = (form.groups == 2 ? column / 16 : block) * std::int64_t{panelRows};
    const Z number = _mm512_cvtepi32_ps(numbersOf<Nibbles>(form, lines, k));
    const Z scale = Stored ? halves(stored) : _mm512_load_ps(slice.scales + group);
    if (!form.hasMin)
        return _mm512_mul_ps(scale, number);
    return _mm512_fmadd_ps(scale, number, Stored ? halves(stored + 2 * panelRows) : _mm512_load_ps(slice.mins + group));
}

constexpr int together = 4; ///< rows whose sums hide each other's latency

/// Whether rows [m, m + together) all have as many outliers left, and all of these come before walk.column.
inline __attribute__((always_inline)) bool endTogether(const Outliers &outliers, const OutlierWalk &walk, int m)
{
    const std::int32_t count = outliers.counts[m];
    bool same = count > 0;
#pragma GCC unroll 4
    for (int r = m; r < m + together; ++r) {
        const std::int64_t last = r * outliers.mostPerRow + count - 1;
        same =
            same && outliers.counts[r] == count && walk.next[r] == walk.next[m] && outliers.places[last] < walk.column;
    }
    return same;
}

/// Outliers of rows [m, m + R) that come before walk.column; as many in each row. `origin`: the weights of column 0.
template<int R>
inline __attribute__((always_inline)) void addRows(const Outliers &outliers, OutlierWalk &walk, int m,
                                                   const float *origin, float *tile)
{
    const std::int32_t *places = outliers.places + m * outliers.mostPerRow;
    const float *values = outliers.values + m * outliers.mostPerRow;
    Z f[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
        f[r] = _mm512_loadu_ps(tile + (m + r) * panelRows);
    std::int32_t i = walk.next[m];
    for (; i < outliers.counts[m] && places[i] < walk.column; ++i) {
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
            const std::int64_t at = r * outliers.mostPerRow + i;
            f[r] = _mm512_fmadd_ps(_mm512_load_ps(origin + std::int64_t{places[at]} * panelRows),
                                   _mm512_set1_ps(values[at]), f[r]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
        _mm512_storeu_ps(tile + (m + r) * panelRows, f[r]);
        walk.next[m + r] = i;
    }
}

/// Columns are expanded as many at a time as there is room for, then met by the rows.
template<bool Nibbles, bool Stored>
void add(const PanelSlice &slice, const SliceNumbers &form, int firstBlock, const Outliers &outliers, OutlierWalk &walk,
         int rows, float *weights, float *tile)
{
    const int start = firstBlock * blockWidth;
    const int end = start + slice.blocks * blockWidth;
    while (walk.column < outliers.columnCount && outliers.columns[walk.column] < end) {
        const int first = walk.column;
        for (float *to = weights; walk.column < outliers.columnCount && outliers.columns[walk.column] < end
             && to != weights + floatSliceColumns * panelRows;
             ++walk.column, to += panelRows)
            _mm512_store_ps(
                to,
                weightsOf<Nibbles, Stored>(slice, form, static_cast<unsigned>(outliers.columns[walk.column] - start)));
        const float *origin = weights - std::int64_t{first} * panelRows;
        for (int m = 0; m < rows;) {
            if (rows - m >= together && endTogether(outliers, walk, m)) {
                addRows<together>(outliers, walk, m, origin, tile);
                m += together;
            } else {
                addRows<1>(outliers, walk, m, origin, tile);
                ++m;
            }
        }
    }
}

} // namespace

void addOutliersAvx512(const PanelSlice &slice, const SliceNumbers &form, int firstBlock, const Outliers &outliers,
                       OutlierWalk &walk, int rows, float *weights, float *tile)
{
    const auto run = form.nibbles ? (form.storedScales ? add<true, true> : add<true, false>)
                                  : (form.storedScales ? add<false, true> : add<false, false>);
    run(slice, form, firstBlock, outliers, walk, rows, weights, tile);
}

} // namespace kernels
