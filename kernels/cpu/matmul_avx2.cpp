// SPDX-License-Identifier: GPL-3.0-or-later
// Matrix products on AVX2. A line of 64 bytes holds 4 consecutive k of 16 rows, so a broadcast quad of activations
// meets 8 rows in one register and no horizontal addition is needed.
#include "kernels/cpu/level.h"
#include "kernels/cpu/tiles_avx2.h"

namespace kernels {

namespace {

constexpr int mostRows = 4; // of a tile; 5 and 6 spill and gain nothing
constexpr int fetchBytes = 8192;
constexpr int unpackFromRows = 32; // below, nibbles are split again for every tile of rows

using I = __m256i;
using F = __m256;

// gcc turns chains of integer additions into trees and spills every product, and reloads weights for every row;
// a register that it cannot see through stays where it is.
inline __attribute__((always_inline)) void hide(I &v)
{
    __asm__("" : "+x"(v));
}

inline __attribute__((always_inline)) I load(const void *p)
{
    return _mm256_loadu_si256(static_cast<const I *>(p));
}

inline __attribute__((always_inline)) I quad(const std::int8_t *p)
{
    int value;
    __builtin_memcpy(&value, p, 4);
    return _mm256_set1_epi32(value);
}

/// Asks for a block's lines and scales ahead of their use, into the second cache, which has more misses under way.
inline __attribute__((always_inline)) void fetchBlock(const std::uint8_t *block, int lines)
{
#pragma GCC unroll 16
    for (int i = 0; i <= lines; ++i)
        _mm_prefetch(reinterpret_cast<const char *>(block) + fetchBytes + i * lineBytes, _MM_HINT_T1);
}

inline __attribute__((always_inline)) void add16(I &sum, I products, bool first)
{
    sum = first ? products : _mm256_add_epi16(sum, products);
    hide(sum);
}

inline __attribute__((always_inline)) void add32(I &sum, I products, bool first)
{
    sum = first ? products : _mm256_add_epi32(sum, products);
    hide(sum);
}

/// End of a block, the same in every kernel and level: f = fma(sum, scale x activation scale, f).
inline __attribute__((always_inline)) F endGroup(F f, I sum, F scale, float activationScale)
{
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(scale, _mm256_set1_ps(activationScale)), f);
}

template<int R> inline __attribute__((always_inline)) void loadTile(F (&f)[R][2], const float *tile, bool first)
{
#pragma GCC unroll 16
    for (int m = 0; m < R; ++m) {
        f[m][0] = first ? _mm256_setzero_ps() : _mm256_loadu_ps(tile + m * panelRows);
        f[m][1] = first ? _mm256_setzero_ps() : _mm256_loadu_ps(tile + m * panelRows + 8);
    }
}

template<int R> inline __attribute__((always_inline)) void storeTile(const F (&f)[R][2], float *tile)
{
#pragma GCC unroll 16
    for (int m = 0; m < R; ++m) {
        _mm256_storeu_ps(tile + m * panelRows, f[m][0]);
        _mm256_storeu_ps(tile + m * panelRows + 8, f[m][1]);
    }
}

/// End of a block of small numbers: minimum as a float, or -8 x sum of activations as an integer.
template<int R, bool HasMin>
inline __attribute__((always_inline)) void endSmallBlock(F (&f)[R][2], const I (&sum)[R][2], const PanelSlice &slice,
                                                         int b, const BlockRecord *records, std::int64_t blocksPerRow)
{
    const I one = _mm256_set1_epi16(1);
#pragma GCC unroll 16
    for (int m = 0; m < R; ++m) {
        const BlockRecord &record = records[m * blocksPerRow + b];
#pragma GCC unroll 16
        for (int h = 0; h < 2; ++h) {
            I total = _mm256_madd_epi16(sum[m][h], one);
            if (!HasMin)
                total = _mm256_add_epi32(total, _mm256_set1_epi32(record.minus8));
            f[m][h] = endGroup(f[m][h], total, _mm256_load_ps(slice.scales + b * 16 + h * 8), record.scale);
            if (HasMin)
                f[m][h] = _mm256_fmadd_ps(_mm256_load_ps(slice.mins + b * 16 + h * 8), _mm256_set1_ps(record.scaledSum),
                                          f[m][h]);
        }
    }
}

// Numbers of 0..15: one int16 lane takes all 8 quads of a block, 8 x 2 x 15 x 127 = 30480 < 32767.
template<int R, bool HasMin>
__attribute__((noinline)) void nibbleTile(const PanelSlice &slice, const QuantRows &x, std::int64_t offset, bool first,
                                          float *tile)
{
    const std::int8_t *a = x.numbers + offset * blockWidth;
    const BlockRecord *records = x.blocks + offset;
    const I low = _mm256_set1_epi8(15);
    F f[R][2];
    loadTile<R>(f, tile, first);
    for (int b = 0; b < slice.blocks; ++b) {
        const std::uint8_t *q = slice.lines + b * slice.bytesPerBlock;
        fetchBlock(q, 4);
        I sum[R][2];
#pragma GCC unroll 16
        for (int i = 0; i < 4; ++i) {
            I w0 = load(q + i * 64);
            I w1 = load(q + i * 64 + 32);
            hide(w0);
            hide(w1);
            const I l0 = _mm256_and_si256(w0, low);
            const I l1 = _mm256_and_si256(w1, low);
#pragma GCC unroll 16
            for (int m = 0; m < R; ++m) {
                const I v = quad(a + m * x.stride + b * 32 + i * 4);
                add16(sum[m][0], _mm256_maddubs_epi16(l0, v), i == 0);
                add16(sum[m][1], _mm256_maddubs_epi16(l1, v), i == 0);
            }
            const I h0 = _mm256_and_si256(_mm256_srli_epi16(w0, 4), low);
            const I h1 = _mm256_and_si256(_mm256_srli_epi16(w1, 4), low);
#pragma GCC unroll 16
            for (int m = 0; m < R; ++m) {
                const I v = quad(a + m * x.stride + b * 32 + 16 + i * 4);
                add16(sum[m][0], _mm256_maddubs_epi16(h0, v), false);
                add16(sum[m][1], _mm256_maddubs_epi16(h1, v), false);
            }
        }
        endSmallBlock<R, HasMin>(f, sum, slice, b, records, x.blocksPerRow);
    }
    storeTile<R>(f, tile);
}

/// The same from bytes that were unpacked once for many rows.
template<int R, bool HasMin>
__attribute__((noinline)) void smallTile(const PanelSlice &slice, const QuantRows &x, std::int64_t offset, bool first,
                                         float *tile)
{
    const std::int8_t *a = x.numbers + offset * blockWidth;
    const BlockRecord *records = x.blocks + offset;
    F f[R][2];
    loadTile<R>(f, tile, first);
    for (int b = 0; b < slice.blocks; ++b) {
        const std::uint8_t *q = slice.lines + b * 512;
        I sum[R][2];
#pragma GCC unroll 16
        for (int i = 0; i < 8; ++i) {
            I w0 = load(q + i * 64);
            I w1 = load(q + i * 64 + 32);
            hide(w0);
            hide(w1);
#pragma GCC unroll 16
            for (int m = 0; m < R; ++m) {
                const I v = quad(a + m * x.stride + b * 32 + i * 4);
                add16(sum[m][0], _mm256_maddubs_epi16(w0, v), i == 0);
                add16(sum[m][1], _mm256_maddubs_epi16(w1, v), i == 0);
            }
        }
        endSmallBlock<R, HasMin>(f, sum, slice, b, records, x.blocksPerRow);
    }
    storeTile<R>(f, tile);
}

/// The sum of `Lines` lines from `q` on times the quads of each row from `a` on, for bytes of any size: |w| x sign(a,
/// w), since u8 x s8 pairs of 128 x 127 x 2 still fit int16 and offsets would not. Activations are never -128, which
/// could not be negated.
template<int R, int Lines>
inline __attribute__((always_inline)) void signedLines(I (&sum)[R][2], const std::uint8_t *q, const std::int8_t *a,
                                                       std::int64_t stride)
{
    const I one = _mm256_set1_epi16(1);
#pragma GCC unroll 16
    for (int i = 0; i < Lines; ++i) {
        I w0 = load(q + i * 64);
        I w1 = load(q + i * 64 + 32);
        hide(w0);
        hide(w1);
        I u0 = _mm256_abs_epi8(w0);
        I u1 = _mm256_abs_epi8(w1);
        hide(u0);
        hide(u1);
#pragma GCC unroll 16
        for (int m = 0; m < R; ++m) {
            const I v = quad(a + m * stride + i * 4);
            add32(sum[m][0], _mm256_madd_epi16(_mm256_maddubs_epi16(u0, _mm256_sign_epi8(v, w0)), one), i == 0);
            add32(sum[m][1], _mm256_madd_epi16(_mm256_maddubs_epi16(u1, _mm256_sign_epi8(v, w1)), one), i == 0);
        }
    }
}

/// The same for unsigned numbers, of which one int16 lane takes `Run` quads: 8 of 4 bits, 4 of 5, 2 of 6.
template<int R, int Lines, int Run>
inline __attribute__((always_inline)) void unsignedLines(I (&sum)[R][2], const std::uint8_t *q, const std::int8_t *a,
                                                         std::int64_t stride)
{
    const I one = _mm256_set1_epi16(1);
    constexpr int run = Run < Lines ? Run : Lines;
#pragma GCC unroll 8
    for (int start = 0; start < Lines; start += run) {
        I small[R][2];
#pragma GCC unroll 16
        for (int i = start; i < start + run; ++i) {
            I w0 = load(q + i * 64);
            I w1 = load(q + i * 64 + 32);
            hide(w0);
            hide(w1);
#pragma GCC unroll 16
            for (int m = 0; m < R; ++m) {
                const I v = quad(a + m * stride + i * 4);
                add16(small[m][0], _mm256_maddubs_epi16(w0, v), i == start);
                add16(small[m][1], _mm256_maddubs_epi16(w1, v), i == start);
            }
        }
#pragma GCC unroll 16
        for (int m = 0; m < R; ++m) {
            add32(sum[m][0], _mm256_madd_epi16(small[m][0], one), start == 0);
            add32(sum[m][1], _mm256_madd_epi16(small[m][1], one), start == 0);
        }
    }
}

/// Bytes: signed ones when Run is 0, else unsigned ones of which a minimum or the slice's offset makes what is meant.
template<int R, int Run, bool HasMin, bool Halves>
__attribute__((noinline)) void byteTile(const PanelSlice &slice, const QuantRows &x, std::int64_t offset, bool first,
                                        float *tile)
{
    constexpr int groups = Halves ? 2 : 1;
    F f[R][2];
    loadTile<R>(f, tile, first);
    const std::int8_t *a = x.numbers + offset * blockWidth;
    for (int b = 0; b < slice.blocks; ++b) {
        if constexpr (Run == 0)
            fetchBlock(slice.lines + static_cast<std::int64_t>(b) * slice.bytesPerBlock, 8);
#pragma GCC unroll 16
        for (int g = 0; g < groups; ++g) {
            const std::uint8_t *q = slice.lines + static_cast<std::int64_t>(b) * slice.bytesPerBlock + g * 256;
            I sum[R][2];
            if constexpr (Run == 0)
                signedLines<R, 8 / groups>(sum, q, a + b * 32 + g * 16, x.stride);
            else
                unsignedLines<R, 8 / groups, Run>(sum, q, a + b * 32 + g * 16, x.stride);
#pragma GCC unroll 16
            for (int m = 0; m < R; ++m) {
                const std::int64_t at = m * x.blocksPerRow + offset + b;
                const int minus128 = Halves ? x.halves[at * 2 + g].minus128 : x.blocks[at].minus128;
#pragma GCC unroll 16
                for (int h = 0; h < 2; ++h) {
                    const std::int64_t column = (b * groups + g) * 16 + h * 8;
                    I total = sum[m][h];
                    if (Run != 0 && !HasMin)
                        total = _mm256_add_epi32(total, _mm256_set1_epi32(minus128 >> slice.offsetShift));
                    f[m][h] = endGroup(f[m][h], total, _mm256_load_ps(slice.scales + column), x.blocks[at].scale);
                    if (HasMin) {
                        const float scaledSum = Halves ? x.halves[at * 2 + g].scaledSum : x.blocks[at].scaledSum;
                        f[m][h] =
                            _mm256_fmadd_ps(_mm256_load_ps(slice.mins + column), _mm256_set1_ps(scaledSum), f[m][h]);
                    }
                }
            }
        }
    }
    storeTile<R>(f, tile);
}

QuantRows rowsFrom(const QuantRows &x, int row)
{
    return {x.numbers + row * x.stride, x.blocks + row * x.blocksPerRow,
            x.halves == nullptr ? nullptr : x.halves + row * x.blocksPerRow * 2, x.stride, x.blocksPerRow};
}

using Tile = void (*)(const PanelSlice &, const QuantRows &, std::int64_t, bool, float *);

template<bool HasMin>
constexpr Tile nibbleTiles[mostRows + 1] = {nullptr, nibbleTile<1, HasMin>, nibbleTile<2, HasMin>,
                                            nibbleTile<3, HasMin>, nibbleTile<4, HasMin>};

template<bool HasMin>
constexpr Tile smallTiles[mostRows + 1] = {nullptr, smallTile<1, HasMin>, smallTile<2, HasMin>, smallTile<3, HasMin>,
                                           smallTile<4, HasMin>};

template<int Run, bool HasMin, bool Halves>
constexpr Tile byteTiles[mostRows + 1] = {nullptr, byteTile<1, Run, HasMin, Halves>, byteTile<2, Run, HasMin, Halves>,
                                          byteTile<3, Run, HasMin, Halves>, byteTile<4, Run, HasMin, Halves>};

/// tile [rows, 16] (+)= activations from block `offset` on x sliceᵀ; replaced when `first`
using SliceProducts = void (*)(const PanelSlice &slice, const QuantRows &x, std::int64_t offset, int rows, bool first,
                               float *tile);

/// Walks the activation rows in steps of `mostRows`; Tiles[n] takes n rows.
template<const Tile *Tiles>
void overRows(const PanelSlice &slice, const QuantRows &x, std::int64_t offset, int rows, bool first, float *tile)
{
    for (int m = 0; m < rows; m += mostRows) {
        const int step = rows - m < mostRows ? rows - m : mostRows;
        Tiles[step](slice, rowsFrom(x, m), offset, first, tile + m * panelRows);
    }
}

template<int Run> SliceProducts byteProducts(const PanelLayout &layout)
{
    if (layout.hasMin)
        return layout.groupWidth == 16 ? overRows<byteTiles<Run, true, true>> : overRows<byteTiles<Run, true, false>>;
    return layout.groupWidth == 16 ? overRows<byteTiles<Run, false, true>> : overRows<byteTiles<Run, false, false>>;
}

/// Whether numbers are made of bits, so that they can be taken without a sign.
bool madeOfBits(const PanelLayout &layout)
{
    return layout.byteLines == 0 && layout.scales != PanelScales::Raw
        && (layout.values == PanelValues::Signed || layout.values == PanelValues::Unsigned);
}

SliceProducts productsOf(const PanelLayout &layout, bool nibbles)
{
    if (layout.values == PanelValues::Small && nibbles)
        return layout.hasMin ? overRows<nibbleTiles<true>> : overRows<nibbleTiles<false>>;
    if (layout.values == PanelValues::Small)
        return layout.hasMin ? overRows<smallTiles<true>> : overRows<smallTiles<false>>;
    if (!madeOfBits(layout))
        return byteProducts<0>(layout);
    const int bits = layout.nibbleLines + layout.bitLines; // a nibble is four lines
    return bits <= 4 ? byteProducts<8>(layout) : bits == 5 ? byteProducts<4>(layout) : byteProducts<2>(layout);
}

/// Whether tiles take the numbers unsigned, offsets still in them.
bool unsignedNumbers(const PanelLayout &layout)
{
    return layout.values == PanelValues::Small || madeOfBits(layout);
}

int offsetShiftOf(const PanelLayout &layout)
{
    int shift = 0;
    for (int offset = layout.integerOffset; offset != 0 && offset << shift < 128;)
        ++shift;
    return shift;
}

void quantPanel(const PanelLayout &layout, const std::uint8_t *panel, const QuantRows &x, const Outliers &outliers,
                int rows, const PanelScratch &scratch, float *tile)
{
    const bool nibbles = layout.values == PanelValues::Small && rows < unpackFromRows;
    const bool direct = nibbles || layout.byteLines != 0;
    const SliceProducts products = productsOf(layout, nibbles);
    const SliceNumbers form{nibbles,
                            !unsignedNumbers(layout),
                            false,
                            layout.hasMin,
                            unsignedNumbers(layout) ? layout.integerOffset : 0,
                            blockWidth / layout.groupWidth};
    OutlierWalk walk{};
    for (int b = 0; b < layout.blocks; b += quantSliceBlocks) {
        const int count = layout.blocks - b < quantSliceBlocks ? layout.blocks - b : quantSliceBlocks;
        unpackPanelAvx2(layout, panel, b, count, direct ? nullptr : scratch.lines, scratch.scales, scratch.mins);
        const std::uint8_t *stored = panel + layout.linesAt + static_cast<std::int64_t>(b) * layout.blockBytes;
        const PanelSlice slice{direct ? stored : scratch.lines,
                               scratch.scales,
                               layout.hasMin ? scratch.mins : nullptr,
                               count,
                               direct ? layout.blockBytes : 8 * lineBytes,
                               offsetShiftOf(layout)};
        products(slice, x, b, rows, b == 0, tile);
        addOutliersAvx2(slice, form, b, outliers, walk, rows, scratch.columns, tile);
    }
}

} // namespace

LevelKernels avx2Kernels()
{
    LevelKernels kernels{};
    kernels.quantPanel = quantPanel;
    addFloatKernelsAvx2(kernels);
    addRowKernelsAvx2(kernels);
    addKvKernelsAvx2(kernels);
    addGatedKernelsAvx2(kernels);
    addPeakKernelsAvx2(kernels);
    return kernels;
}

} // namespace kernels
