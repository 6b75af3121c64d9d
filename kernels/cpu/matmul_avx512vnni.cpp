// SPDX-License-Identifier: GPL-3.0-or-later
// Matrix products with VNNI: one instruction multiplies a line (16 rows x 4 k, unsigned) by a broadcast quad of
// activations and adds to 16 sums of 32 bits, without saturating in between.
#include "kernels/cpu/level.h"
#include "kernels/cpu/row_products.h"

#include <immintrin.h>

namespace kernels {

namespace {

using I = __m512i;
using Z = __m512;

constexpr int peakSums = 16;     // enough to cover the latency of a product
constexpr int fetchBytes = 8192; // best of 1024..8192 at 4 to 32 rows

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

/// How a tile reads its weights.
enum class Source { Nibbles, UnsignedBytes, SignedBytes };

/// Line `line` of a block as unsigned numbers; signed ones are moved up by 128, taken off again by the start of the
/// sum.
template<Source S> inline __attribute__((always_inline)) I lineOf(const std::uint8_t *block, int line)
{
    if constexpr (S == Source::Nibbles) {
        const I pair = _mm512_loadu_si512(block + line % 4 * lineBytes);
        return _mm512_and_si512(line < 4 ? pair : _mm512_srli_epi16(pair, 4), _mm512_set1_epi8(15));
    }
    const I bytes = _mm512_loadu_si512(block + line * lineBytes);
    return S == Source::SignedBytes ? _mm512_xor_si512(bytes, _mm512_set1_epi8(-128)) : bytes;
}

/// What the integer sum of a group starts with: the offset of the stored numbers times the activations.
template<Source S, bool HasMin>
inline __attribute__((always_inline)) I startOf(const BlockRecord &block, const HalfRecord *half)
{
    if constexpr (S == Source::SignedBytes)
        return _mm512_set1_epi32(half != nullptr ? half->minus128 : block.minus128);
    if constexpr (!HasMin)
        return _mm512_set1_epi32(block.minus8);
    return _mm512_setzero_si512();
}

inline __attribute__((always_inline)) Z halves(const std::uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)));
}

/// R activation rows x 16 outputs; Halves: scales of 16 instead of 32; Stored: scales are fp16 behind a block's lines.
/// Bytes of the panel are fetched `ahead` of their use.
template<int R, Source S, bool HasMin, bool Halves, bool Stored>
__attribute__((noinline)) void tile(const PanelSlice &slice, const QuantRows &x, std::int64_t offset, bool first,
                                    float *out, std::int64_t ahead)
{
    constexpr int groups = Halves ? 2 : 1;
    constexpr int lines = 8 / groups;
    constexpr int storedLines = S == Source::Nibbles ? 4 : 8;
    Z f[R];
#pragma GCC unroll 16
    for (int m = 0; m < R; ++m)
        f[m] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(out + m * panelRows);
    const std::int8_t *a = x.numbers + offset * blockWidth;
    for (int b = 0; b < slice.blocks; ++b) {
        const std::uint8_t *block = slice.lines + b * slice.bytesPerBlock;
#pragma GCC unroll 2
        for (int g = 0; g < groups; ++g) {
            I sum[R];
#pragma GCC unroll 16
            for (int m = 0; m < R; ++m) {
                const std::int64_t at = m * x.blocksPerRow + offset + b;
                sum[m] = startOf<S, HasMin>(x.blocks[at], Halves ? x.halves + at * 2 + g : nullptr);
            }
#pragma GCC unroll 8
            for (int i = 0; i < lines; ++i) {
                const int line = g * lines + i;
                if (line < storedLines)
                    _mm_prefetch(reinterpret_cast<const char *>(block) + ahead + line * lineBytes, _MM_HINT_T1);
                I w = lineOf<S>(block, line);
                hide(w);
#pragma GCC unroll 16
                for (int m = 0; m < R; ++m)
                    sum[m] = _mm512_dpbusd_epi32(sum[m], w, quad(a + m * x.stride + b * 32 + line * 4));
            }
            const int column = (b * groups + g) * panelRows;
            const std::uint8_t *stored = block + storedLines * lineBytes;
            if constexpr (Stored)
                _mm_prefetch(reinterpret_cast<const char *>(stored) + ahead, _MM_HINT_T1);
            const Z scales = Stored ? halves(stored) : _mm512_load_ps(slice.scales + column);
            Z mins = _mm512_setzero_ps();
            if constexpr (HasMin)
                mins = Stored ? halves(stored + 2 * panelRows) : _mm512_load_ps(slice.mins + column);
#pragma GCC unroll 16
            for (int m = 0; m < R; ++m) {
                const std::int64_t at = m * x.blocksPerRow + offset + b;
                f[m] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[m]),
                                       _mm512_mul_ps(scales, _mm512_set1_ps(x.blocks[at].scale)), f[m]);
                if constexpr (HasMin) {
                    const float scaledSum = Halves ? x.halves[at * 2 + g].scaledSum : x.blocks[at].scaledSum;
                    f[m] = _mm512_fmadd_ps(mins, _mm512_set1_ps(scaledSum), f[m]);
                }
            }
        }
    }
#pragma GCC unroll 16
    for (int m = 0; m < R; ++m)
        _mm512_storeu_ps(out + m * panelRows, f[m]);
}

/// The same for a whole group of rows, which lie side by side: x and halfRecords begin with the slice's first block.
template<Source S, bool HasMin, bool Halves, bool Stored>
__attribute__((noinline)) void groupTile(const PanelSlice &slice, const GroupBlock *x, const GroupHalves *halfRecords,
                                         bool first, float *out, std::int64_t ahead)
{
    constexpr int groups = Halves ? 2 : 1;
    constexpr int lines = 8 / groups;
    constexpr int storedLines = S == Source::Nibbles ? 4 : 8;
    Z f[groupRows];
#pragma GCC unroll 8
    for (int m = 0; m < groupRows; ++m)
        f[m] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(out + m * panelRows);
    const std::uint8_t *block = slice.lines;
    for (int b = 0; b < slice.blocks; ++b, ++x, block += slice.bytesPerBlock) {
#pragma GCC unroll 2
        for (int g = 0; g < groups; ++g) {
            I sum[groupRows];
#pragma GCC unroll 8
            for (int m = 0; m < groupRows; ++m) {
                if constexpr (S == Source::SignedBytes)
                    sum[m] = _mm512_set1_epi32(Halves ? halfRecords[b].minus128[g][m] : x->minus128[m]);
                else
                    sum[m] = HasMin ? _mm512_setzero_si512() : _mm512_set1_epi32(x->minus8[m]);
            }
#pragma GCC unroll 8
            for (int i = 0; i < lines; ++i) {
                const int line = g * lines + i;
                if (line < storedLines)
                    _mm_prefetch(reinterpret_cast<const char *>(block) + ahead + line * lineBytes, _MM_HINT_T1);
                I w = lineOf<S>(block, line);
                hide(w);
#pragma GCC unroll 8
                for (int m = 0; m < groupRows; ++m)
                    sum[m] = _mm512_dpbusd_epi32(sum[m], w, quad(x->numbers[m] + line * 4));
            }
            const int column = (b * groups + g) * panelRows;
            const std::uint8_t *stored = block + storedLines * lineBytes;
            if constexpr (Stored)
                _mm_prefetch(reinterpret_cast<const char *>(stored) + ahead, _MM_HINT_T1);
            const Z scales = Stored ? halves(stored) : _mm512_load_ps(slice.scales + column);
            Z mins = _mm512_setzero_ps();
            if constexpr (HasMin)
                mins = Stored ? halves(stored + 2 * panelRows) : _mm512_load_ps(slice.mins + column);
#pragma GCC unroll 8
            for (int m = 0; m < groupRows; ++m) {
                f[m] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[m]), _mm512_mul_ps(scales, _mm512_set1_ps(x->scales[m])),
                                       f[m]);
                if constexpr (HasMin) {
                    const float scaledSum = Halves ? halfRecords[b].scaledSums[g][m] : x->scaledSums[m];
                    f[m] = _mm512_fmadd_ps(mins, _mm512_set1_ps(scaledSum), f[m]);
                }
            }
        }
    }
#pragma GCC unroll 8
    for (int m = 0; m < groupRows; ++m)
        _mm512_storeu_ps(out + m * panelRows, f[m]);
}

QuantRows rowsFrom(const QuantRows &x, int row)
{
    return {x.numbers + row * x.stride, x.blocks + row * x.blocksPerRow,
            x.halves == nullptr ? nullptr : x.halves + row * x.blocksPerRow * 2, x.stride, x.blocksPerRow};
}

using Tile = void (*)(const PanelSlice &, const QuantRows &, std::int64_t, bool, float *, std::int64_t);
using GroupTile = void (*)(const PanelSlice &, const GroupBlock *, const GroupHalves *, bool, float *, std::int64_t);

/// Tiles that take as many rows as their place tells, and how they read numbers.
struct Tiles {
    Tile rows[groupRows];
    GroupTile group;
    SliceNumbers form;
};

template<Source S, bool HasMin, bool Halves, bool Stored>
constexpr Tiles tiles = {{nullptr, tile<1, S, HasMin, Halves, Stored>, tile<2, S, HasMin, Halves, Stored>,
                          tile<3, S, HasMin, Halves, Stored>, tile<4, S, HasMin, Halves, Stored>,
                          tile<5, S, HasMin, Halves, Stored>, tile<6, S, HasMin, Halves, Stored>,
                          tile<7, S, HasMin, Halves, Stored>},
                         groupTile<S, HasMin, Halves, Stored>,
                         {S == Source::Nibbles, S == Source::SignedBytes, Stored, HasMin,
                          S == Source::Nibbles && !HasMin ? 8 : 0, Halves ? 2 : 1}};

/// Splitting nibbles costs no more than loading bytes that were split before, so only other forms are unpacked.
bool isDirect(const PanelLayout &layout)
{
    return layout.values == PanelValues::Small || layout.byteLines != 0;
}

template<Source S, bool HasMin> const Tiles &directTiles(const PanelLayout &layout)
{
    return layout.scales == PanelScales::Half ? tiles<S, HasMin, false, true> : tiles<S, HasMin, false, false>;
}

const Tiles &tilesOf(const PanelLayout &layout)
{
    if (layout.values == PanelValues::Small)
        return layout.hasMin ? directTiles<Source::Nibbles, true>(layout) : directTiles<Source::Nibbles, false>(layout);
    if (layout.byteLines != 0)
        return directTiles<Source::SignedBytes, false>(layout);
    if (layout.values == PanelValues::Unsigned)
        return layout.groupWidth == 16 ? tiles<Source::UnsignedBytes, true, true, false>
                                       : tiles<Source::UnsignedBytes, true, false, false>;
    return layout.groupWidth == 16 ? tiles<Source::SignedBytes, false, true, false>
                                   : tiles<Source::SignedBytes, false, false, false>;
}

/// The blocks of a slice for all rows.
void addBlocks(const Tiles &run, const PanelSlice &slice, int firstBlock, const QuantRows &x, int rows, float *out)
{
    const int full = rows / groupRows * groupRows;
    for (int m = 0; m < full; m += groupRows) {
        const std::int64_t at = m / groupRows * x.blocksPerRow + firstBlock;
        run.group(slice, x.groups + at, x.groupHalves != nullptr ? x.groupHalves + at : nullptr, firstBlock == 0,
                  out + m * panelRows, m == 0 ? fetchBytes : 0);
    }
    if (full < rows)
        run.rows[rows - full](slice, rowsFrom(x, full), firstBlock, firstBlock == 0, out + full * panelRows,
                              full == 0 ? fetchBytes : 0);
}

void quantPanel(const PanelLayout &layout, const std::uint8_t *panel, const QuantRows &x, const Outliers &outliers,
                int rows, const PanelScratch &scratch, float *tile)
{
    const bool raw = layout.scales == PanelScales::Raw;
    // A row that was left over by a tile of many meets columns of other rows' outliers, which that kernel does not
    // know.
    if (rows == 1 && !raw && outliers.columnCount == outliers.counts[0])
        return rowProductsAvx512Vnni(layout, panel, x, outliers, scratch.fetchBytes, tile);
    const bool direct = isDirect(layout);
    const Tiles &run = tilesOf(layout);
    OutlierWalk walk{};
    for (int b = 0; b < layout.blocks; b += quantSliceBlocks) {
        const int count = layout.blocks - b < quantSliceBlocks ? layout.blocks - b : quantSliceBlocks;
        const std::uint8_t *block = panel + layout.linesAt + static_cast<std::int64_t>(b) * layout.blockBytes;
        // Lines first: scales are a line here and there, which no stream would fetch.
        if (!direct && !raw)
            unpackLinesAvx512Vnni(layout, block, count, scratch.lines);
        if (!direct || layout.scales != PanelScales::Half)
            unpackPanelAvx2(layout, panel, b, count, raw ? scratch.lines : nullptr, scratch.scales, scratch.mins);
        const PanelSlice slice{direct ? block : scratch.lines,
                               scratch.scales,
                               layout.hasMin ? scratch.mins : nullptr,
                               count,
                               direct ? layout.blockBytes : 8 * lineBytes,
                               0};
        addBlocks(run, slice, b, x, rows, tile);
        addOutliersAvx512(slice, run.form, b, outliers, walk, rows, scratch.columns, tile);
    }
}

double integerPeak(std::int64_t rounds)
{
    const I a = _mm512_set1_epi8(3);
    I sums[peakSums];
#pragma GCC unroll 16
    for (I &sum : sums)
        sum = _mm512_setzero_si512();
    for (std::int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
        for (I &sum : sums) {
            sum = _mm512_dpbusd_epi32(sum, a, a);
            hide(sum);
        }
    }
#pragma GCC unroll 16
    for (const I &sum : sums)
        __asm__ volatile("" : : "v"(sum)); // sums that nobody wants would not be worked out
    return static_cast<double>(rounds) * peakSums * 128;
}

} // namespace

void quantPanelAvx512Vnni(const PanelLayout &layout, const std::uint8_t *panel, const QuantRows &x,
                          const Outliers &outliers, int rows, const PanelScratch &scratch, float *tile)
{
    quantPanel(layout, panel, x, outliers, rows, scratch, tile);
}

LevelKernels avx512VnniKernels()
{
    LevelKernels kernels = avx512Kernels();
    kernels.quantPanel = quantPanel;
    kernels.quantPanelPair = quantPairAvx512Vnni;
    kernels.takesGroups = true;
    addRoundingAvx512Vnni(kernels);
    kernels.integerPeak = integerPeak;
    return kernels;
}

} // namespace kernels
