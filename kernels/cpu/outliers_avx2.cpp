// SPDX-License-Identifier: GPL-3.0-or-later
// Activations that are left out of their blocks, on AVX2: the weights of a column are expanded once for all rows.
#include "kernels/cpu/level.h"

#include <immintrin.h>

namespace kernels {

namespace {

using I = __m256i;
using F = __m256;

/// Half (8 rows) of the numbers of column `k` (of 32) of the block at `block`.
inline __attribute__((always_inline)) I numbersOf(const SliceNumbers &form, const std::uint8_t *block, int k, int half)
{
    const int line = k / 4;
    const auto load = [&](int at) {
        return _mm256_loadu_si256(reinterpret_cast<const I *>(block + at * lineBytes + half * 32));
    };
    I number;
    if (form.nibbles) {
        const __m128i shift = _mm_cvtsi32_si128(k % 4 * 8 + line / 4 * 4);
        number = _mm256_and_si256(_mm256_srl_epi32(load(line % 4), shift), _mm256_set1_epi32(15));
    } else {
        const I top = _mm256_sll_epi32(load(line), _mm_cvtsi32_si128(24 - k % 4 * 8));
        number = form.isSigned ? _mm256_srai_epi32(top, 24) : _mm256_srli_epi32(top, 24);
    }
    return _mm256_sub_epi32(number, _mm256_set1_epi32(form.offset));
}

inline __attribute__((always_inline)) F weightsOf(const PanelSlice &slice, const SliceNumbers &form, int column,
                                                  int half)
{
    const int block = column / blockWidth;
    const int k = column % blockWidth;
    const std::uint8_t *lines = slice.lines + static_cast<std::int64_t>(block) * slice.bytesPerBlock;
    const int group = (form.groups == 2 ? column / 16 : block) * panelRows + half * 8;
    const F number = _mm256_cvtepi32_ps(numbersOf(form, lines, k, half));
    const F scale = _mm256_load_ps(slice.scales + group);
    return form.hasMin ? _mm256_fmadd_ps(scale, number, _mm256_load_ps(slice.mins + group))
                       : _mm256_mul_ps(scale, number);
}

} // namespace

void addOutliersAvx2(const PanelSlice &slice, const SliceNumbers &form, int firstBlock, const Outliers &outliers,
                     OutlierWalk &walk, int rows, float *weights, float *tile)
{
    const int start = firstBlock * blockWidth;
    const int end = start + slice.blocks * blockWidth;
    while (walk.column < outliers.columnCount && outliers.columns[walk.column] < end) {
        const int first = walk.column;
        for (float *to = weights; walk.column < outliers.columnCount && outliers.columns[walk.column] < end
             && to != weights + floatSliceColumns * panelRows;
             ++walk.column, to += panelRows) {
            const int column = outliers.columns[walk.column] - start;
            _mm256_store_ps(to, weightsOf(slice, form, column, 0));
            _mm256_store_ps(to + 8, weightsOf(slice, form, column, 1));
        }
        for (int m = 0; m < rows; ++m) {
            const std::int32_t *places = outliers.places + m * outliers.mostPerRow;
            const float *values = outliers.values + m * outliers.mostPerRow;
            int i = walk.next[m];
            F low = _mm256_loadu_ps(tile + m * panelRows);
            F high = _mm256_loadu_ps(tile + m * panelRows + 8);
            for (; i < outliers.counts[m] && places[i] < walk.column; ++i) {
                const float *column = weights + (places[i] - first) * panelRows;
                const F value = _mm256_set1_ps(values[i]);
                low = _mm256_fmadd_ps(_mm256_load_ps(column), value, low);
                high = _mm256_fmadd_ps(_mm256_load_ps(column + 8), value, high);
            }
            _mm256_storeu_ps(tile + m * panelRows, low);
            _mm256_storeu_ps(tile + m * panelRows + 8, high);
            walk.next[m] = i;
        }
    }
}

} // namespace kernels
