// SPDX-License-Identifier: GPL-3.0-or-later
// Many rows with two panels at a time. Numbers are unpacked to bytes once for all rows, and a quad of activations that
// was broadcast meets a line of each panel: half the loads, and twice the sums under way to cover the latency of a
// product. The operations on each sum are those of one panel, in the same order.
#include "kernels/cpu/level.h"
#include "kernels/cpu/row_products.h"

#include <immintrin.h>

namespace kernels {

namespace {

using I = __m512i;
using Z = __m512;

constexpr int leastRows = 32;    // fewer do not pay for unpacking
constexpr int cachedBlocks = 24; ///< of both panels, with what the rows need, in the first cache

inline __attribute__((always_inline)) I quad(const std::int8_t *p)
{
    int value;
    __builtin_memcpy(&value, p, 4);
    return _mm512_set1_epi32(value);
}

inline __attribute__((always_inline)) void hide(I &v)
{
    __asm__("" : "+v"(v));
}

/// What an integer sum starts with, which is how far the stored bytes lie above the numbers that are meant.
enum class Start { Zero, Minus8, Minus128 };

/// What is needed next from memory: a few lines of it are fetched with every block, as a burst of them would wait for
/// the places of misses.
struct Ahead {
    const std::uint8_t *first; ///< or null
    int bytesPerBlock;
};

/// Two panels' blocks as unsigned bytes and float scales.
struct PairSlice {
    const std::uint8_t *lines[2]; ///< [blocks, 8, 64]
    const float *scales[2];       ///< [groups, 16]
    const float *mins[2];         ///< [groups, 16]
    int firstBlock;               ///< of the panel
    int blocks;
};

/// A group of activation rows, from the slice's first block on, x 16 outputs of each panel; Halves: scales of 16
/// instead of 32.
template<Start S, bool HasMin, bool Halves>
__attribute__((noinline)) void tile(const PairSlice &slice, const GroupBlock *x, const GroupHalves *halfRecords,
                                    const Ahead &ahead, float *const (&out)[2])
{
    constexpr int groups = Halves ? 2 : 1;
    constexpr int lines = 8 / groups;
    Z f[2][groupRows];
#pragma GCC unroll 2
    for (int p = 0; p < 2; ++p) {
#pragma GCC unroll 8
        for (int m = 0; m < groupRows; ++m)
            f[p][m] = slice.firstBlock == 0 ? _mm512_setzero_ps() : _mm512_loadu_ps(out[p] + m * panelRows);
    }
    for (int b = 0; b < slice.blocks; ++b, ++x) {
        if (ahead.first != nullptr) {
            for (int i = 0; i < ahead.bytesPerBlock; i += lineBytes)
                _mm_prefetch(reinterpret_cast<const char *>(ahead.first) + b * ahead.bytesPerBlock + i, _MM_HINT_T1);
        }
#pragma GCC unroll 2
        for (int g = 0; g < groups; ++g) {
            I sum[2][groupRows];
#pragma GCC unroll 8
            for (int m = 0; m < groupRows; ++m) {
                if constexpr (S == Start::Minus128)
                    sum[0][m] = _mm512_set1_epi32(Halves ? halfRecords[b].minus128[g][m] : x->minus128[m]);
                else
                    sum[0][m] = S == Start::Zero ? _mm512_setzero_si512() : _mm512_set1_epi32(x->minus8[m]);
                sum[1][m] = sum[0][m];
            }
#pragma GCC unroll 8
            for (int i = 0; i < lines; ++i) {
                const int line = g * lines + i;
                I first = _mm512_load_si512(slice.lines[0] + (b * 8 + line) * lineBytes);
                I second = _mm512_load_si512(slice.lines[1] + (b * 8 + line) * lineBytes);
                hide(first);
                hide(second);
#pragma GCC unroll 8
                for (int m = 0; m < groupRows; ++m) {
                    I numbers = quad(x->numbers[m] + line * 4);
                    hide(numbers);
                    sum[0][m] = _mm512_dpbusd_epi32(sum[0][m], first, numbers);
                    sum[1][m] = _mm512_dpbusd_epi32(sum[1][m], second, numbers);
                }
            }
#pragma GCC unroll 2
            for (int p = 0; p < 2; ++p) {
                const Z scales = _mm512_load_ps(slice.scales[p] + (b * groups + g) * panelRows);
                Z mins = _mm512_setzero_ps();
                if constexpr (HasMin)
                    mins = _mm512_load_ps(slice.mins[p] + (b * groups + g) * panelRows);
#pragma GCC unroll 8
                for (int m = 0; m < groupRows; ++m) {
                    f[p][m] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[p][m]),
                                              _mm512_mul_ps(scales, _mm512_set1_ps(x->scales[m])), f[p][m]);
                    if constexpr (HasMin) {
                        const float scaledSum = Halves ? halfRecords[b].scaledSums[g][m] : x->scaledSums[m];
                        f[p][m] = _mm512_fmadd_ps(mins, _mm512_set1_ps(scaledSum), f[p][m]);
                    }
                }
            }
        }
    }
#pragma GCC unroll 2
    for (int p = 0; p < 2; ++p) {
#pragma GCC unroll 8
        for (int m = 0; m < groupRows; ++m)
            _mm512_storeu_ps(out[p] + m * panelRows, f[p][m]);
    }
}

using Tile = void (*)(const PairSlice &, const GroupBlock *, const GroupHalves *, const Ahead &, float *const (&)[2]);

/// A tile, and how the bytes that it reads are meant.
struct PairTile {
    Tile run;
    SliceNumbers form;
};

template<Start S, bool HasMin, bool Halves>
constexpr PairTile pairTile = {tile<S, HasMin, Halves>,
                               {false, false, false, HasMin,
                                S == Start::Zero         ? 0
                                    : S == Start::Minus8 ? 8
                                                         : 128,
                                Halves ? 2 : 1}};

const PairTile &tileOf(const PanelLayout &layout)
{
    const bool halves = layout.groupWidth == 16;
    if (layout.hasMin)
        return halves ? pairTile<Start::Zero, true, true> : pairTile<Start::Zero, true, false>;
    if (layout.values == PanelValues::Small)
        return pairTile<Start::Minus8, false, false>;
    return halves ? pairTile<Start::Minus128, false, true> : pairTile<Start::Minus128, false, false>;
}

QuantRows rowsFrom(const QuantRows &x, int row)
{
    return {x.numbers + row * x.stride, x.blocks + row * x.blocksPerRow,
            x.halves == nullptr ? nullptr : x.halves + row * x.blocksPerRow * 2, x.stride, x.blocksPerRow};
}

Outliers outliersFrom(const Outliers &outliers, int row)
{
    return {outliers.columns,
            outliers.columnCount,
            outliers.counts + row,
            outliers.places + row * outliers.mostPerRow,
            outliers.values + row * outliers.mostPerRow,
            outliers.mostPerRow};
}

/// The blocks of a slice for all rows, as many at a time as the first cache holds. The first rows fetch ahead of the
/// first panel, the next ones of the second.
void addBlocks(Tile run, const PairSlice &all, const QuantRows &x, int rows, int groups, const Ahead (&ahead)[2],
               float *const (&out)[2])
{
    for (int b = 0; b < all.blocks; b += cachedBlocks) {
        PairSlice slice = all;
        slice.firstBlock += b;
        slice.blocks = all.blocks - b < cachedBlocks ? all.blocks - b : cachedBlocks;
        for (int p = 0; p < 2; ++p) {
            slice.lines[p] += b * 8 * lineBytes;
            slice.scales[p] += b * groups * panelRows;
            slice.mins[p] += b * groups * panelRows;
        }
        for (int m = 0; m < rows; m += groupRows) {
            float *const tiles[2] = {out[0] + m * panelRows, out[1] + m * panelRows};
            Ahead next{};
            if (m / groupRows < 2)
                next = {ahead[m / groupRows].first + std::int64_t{b} * ahead[0].bytesPerBlock, ahead[0].bytesPerBlock};
            const std::int64_t at = m / groupRows * x.blocksPerRow + slice.firstBlock;
            run(slice, x.groups + at, x.groupHalves != nullptr ? x.groupHalves + at : nullptr, next, tiles);
        }
    }
}

} // namespace

bool quantPairAvx512Vnni(const PanelLayout &layout, const std::uint8_t *const (&panels)[2], const QuantRows &x,
                         const Outliers &outliers, int rows, const PanelScratch (&scratch)[2], float *const (&tiles)[2])
{
    if (rows < leastRows || layout.scales == PanelScales::Raw)
        return false;
    const PairTile &run = tileOf(layout);
    const int full = rows / groupRows * groupRows;
    // What comes next is the panel, or if these two follow one another the pair, behind each.
    const auto bytes = static_cast<std::int64_t>(layout.panelBytes);
    const std::int64_t distance = panels[1] == panels[0] + bytes ? 2 * bytes : bytes;
    OutlierWalk walks[2] = {};
    for (int b = 0; b < layout.blocks; b += quantSliceBlocks) {
        const int count = layout.blocks - b < quantSliceBlocks ? layout.blocks - b : quantSliceBlocks;
        Ahead ahead[2];
        for (int p = 0; p < 2; ++p) {
            const std::uint8_t *block = panels[p] + layout.linesAt + std::int64_t{b} * layout.blockBytes;
            ahead[p] = {block + distance, layout.blockBytes};
            unpackBytesAvx512Vnni(layout, block, count, scratch[p].lines);
            unpackPanelAvx2(layout, panels[p], b, count, nullptr, scratch[p].scales, scratch[p].mins);
        }
        addBlocks(run.run,
                  {{scratch[0].lines, scratch[1].lines},
                   {scratch[0].scales, scratch[1].scales},
                   {scratch[0].mins, scratch[1].mins},
                   b,
                   count},
                  x, full, run.form.groups, ahead, tiles);
        for (int p = 0; p < 2; ++p) {
            const PanelSlice slice{scratch[p].lines,
                                   scratch[p].scales,
                                   layout.hasMin ? scratch[p].mins : nullptr,
                                   count,
                                   8 * lineBytes,
                                   0};
            addOutliersAvx512(slice, run.form, b, outliers, walks[p], full, scratch[p].columns, tiles[p]);
        }
    }
    for (int p = 0; p < 2 && full < rows; ++p)
        quantPanelAvx512Vnni(layout, panels[p], rowsFrom(x, full), outliersFrom(outliers, full), rows - full,
                             scratch[p], tiles[p] + full * panelRows);
    return true;
}

} // namespace kernels
