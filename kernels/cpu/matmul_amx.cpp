// SPDX-License-Identifier: GPL-3.0-or-later
// Matrix products with tiles: the lines of a block are the rows of one operand, 16 rows of activations the other, and
// one instruction makes the integer sums of the block for 16 x 16 outputs. Sums leave their register after every
// scale, to be added in float in the same order as at the other levels.
#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/row_products.h"

#include <immintrin.h>

namespace kernels {

namespace {

using I = __m512i;
using Z = __m512;

constexpr int tileHeight = 16; ///< activation rows of a tile
/// Fewer rows leave too much of a tile empty; the level below multiplies them to the same bits.
constexpr int leastRows = 8;

// Tile registers.
constexpr int sums = 0;
constexpr int activations = 1;
constexpr int weights = 2;
constexpr int restSums = 3; // for the last rows, fewer than 16
constexpr int restActivations = 4;

/// Integer sums on their way from a tile register; two, so that one is filled while the other is read.
struct alignas(64) SumBuffer {
    std::int32_t values[2][tileHeight][panelRows];
};

TileConfig configOf(int groupWidth, int rest)
{
    TileConfig config;
    const auto width = static_cast<std::uint16_t>(groupWidth);
    const auto restRows = static_cast<std::uint8_t>(rest == 0 ? tileHeight : rest);
    config.rowBytes[sums] = lineBytes;
    config.rows[sums] = tileHeight;
    config.rowBytes[activations] = width;
    config.rows[activations] = tileHeight;
    config.rowBytes[weights] = lineBytes;
    config.rows[weights] = static_cast<std::uint8_t>(groupWidth / 4);
    config.rowBytes[restSums] = lineBytes;
    config.rows[restSums] = restRows;
    config.rowBytes[restActivations] = width;
    config.rows[restActivations] = restRows;
    return config;
}

/// Sums of one group of k for 16 rows, or for the last ones.
template<bool Rest>
inline __attribute__((always_inline)) void groupSums(const std::int8_t *a, std::int64_t stride,
                                                     const std::uint8_t *lines, std::int32_t *target)
{
    constexpr int to = Rest ? restSums : sums;
    constexpr int from = Rest ? restActivations : activations;
    tiles::zero<to>();
    tiles::load<from>(a, stride);
    tiles::load<weights>(lines, lineBytes);
    tiles::addSignedProducts<to, from, weights>();
    tiles::store<to>(target, panelRows * sizeof(std::int32_t));
}

/// Lines of group `group` of a slice; groups of 16 share a block.
template<bool Halves>
inline __attribute__((always_inline)) const std::uint8_t *linesOf(const PanelSlice &slice, int group)
{
    constexpr int groups = Halves ? 2 : 1;
    return slice.lines + static_cast<std::int64_t>(group / groups) * slice.bytesPerBlock
        + group % groups * (8 / groups) * lineBytes;
}

/// What one group adds to `count` rows.
struct GroupEnd {
    const float *scales;       ///< [16]
    const float *mins;         ///< [16] or null
    const BlockRecord *blocks; ///< of the first row
    const HalfRecord *halves;  ///< the same, of the group; or null
    std::int64_t blocksPerRow;
};

/// f += sum x scales x activation scale (+ mins x sum of the activations)
template<bool HasMin, bool Halves>
inline __attribute__((always_inline)) Z endOfGroup(Z f, const std::int32_t *sum, const GroupEnd &end, int row)
{
    const BlockRecord &block = end.blocks[row * end.blocksPerRow];
    f = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(sum)),
                        _mm512_mul_ps(_mm512_load_ps(end.scales), _mm512_set1_ps(block.scale)), f);
    if constexpr (HasMin) {
        const float scaledSum = Halves ? end.halves[row * end.blocksPerRow * 2].scaledSum : block.scaledSum;
        f = _mm512_fmadd_ps(_mm512_load_ps(end.mins), _mm512_set1_ps(scaledSum), f);
    }
    return f;
}

/// A slice of signed bytes for `count` rows; Rest: fewer than 16.
template<bool HasMin, bool Halves, bool Rest>
__attribute__((noinline)) void sliceRows(const PanelSlice &slice, const QuantRows &x, std::int64_t offset, int count,
                                         bool first, float *out)
{
    constexpr int groups = Halves ? 2 : 1;
    constexpr int width = blockWidth / groups;
    SumBuffer buffer;
    Z f[tileHeight];
#pragma GCC unroll 16
    for (int m = 0; m < tileHeight; ++m)
        f[m] = first || (Rest && m >= count) ? _mm512_setzero_ps() : _mm512_loadu_ps(out + m * panelRows);
    const int last = slice.blocks * groups;
    const auto start = [&](int g) {
        groupSums<Rest>(x.numbers + offset * blockWidth + g * width, x.stride, linesOf<Halves>(slice, g),
                        buffer.values[g % 2][0]);
    };
    start(0);
    for (int g = 0; g < last; ++g) {
        if (g + 1 < last)
            start(g + 1);
        const GroupEnd end{slice.scales + g * panelRows, HasMin ? slice.mins + g * panelRows : nullptr,
                           x.blocks + offset + g / groups, Halves ? x.halves + offset * 2 + g : nullptr,
                           x.blocksPerRow};
#pragma GCC unroll 16
        for (int m = 0; m < tileHeight; ++m) {
            if (!Rest || m < count)
                f[m] = endOfGroup<HasMin, Halves>(f[m], buffer.values[g % 2][m], end, m);
        }
    }
#pragma GCC unroll 16
    for (int m = 0; m < tileHeight; ++m) {
        if (!Rest || m < count)
            _mm512_storeu_ps(out + m * panelRows, f[m]);
    }
}

QuantRows rowsFrom(const QuantRows &x, int row)
{
    return {x.numbers + row * x.stride, x.blocks + row * x.blocksPerRow,
            x.halves == nullptr ? nullptr : x.halves + row * x.blocksPerRow * 2, x.stride, x.blocksPerRow};
}

/// The blocks of a slice for all rows.
template<bool HasMin, bool Halves>
void addSlice(const PanelSlice &slice, int firstBlock, const QuantRows &x, int rows, float *out)
{
    const int full = rows / tileHeight * tileHeight;
    for (int m = 0; m < full; m += tileHeight)
        sliceRows<HasMin, Halves, false>(slice, rowsFrom(x, m), firstBlock, tileHeight, firstBlock == 0,
                                         out + m * panelRows);
    if (full < rows)
        sliceRows<HasMin, Halves, true>(slice, rowsFrom(x, full), firstBlock, rows - full, firstBlock == 0,
                                        out + full * panelRows);
}

/// Nibbles as signed bytes.
void unpackNibbles(const PanelLayout &layout, const std::uint8_t *block, int count, std::uint8_t *lines)
{
    const I offset = _mm512_set1_epi8(static_cast<char>(layout.integerOffset));
    const I mask = _mm512_set1_epi8(15);
    for (int b = 0; b < count; ++b, block += layout.blockBytes, lines += 8 * lineBytes) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
            const I pair = _mm512_loadu_si512(block + i * lineBytes);
            _mm512_store_si512(lines + i * lineBytes, _mm512_sub_epi8(_mm512_and_si512(pair, mask), offset));
            _mm512_store_si512(lines + (i + 4) * lineBytes,
                               _mm512_sub_epi8(_mm512_and_si512(_mm512_srli_epi16(pair, 4), mask), offset));
        }
    }
}

/// Blocks of a panel as signed bytes and scales.
PanelSlice signedSlice(const PanelLayout &layout, const std::uint8_t *panel, int first, int count,
                       const PanelScratch &scratch)
{
    const bool raw = layout.scales == PanelScales::Raw;
    const std::uint8_t *block = panel + layout.linesAt + static_cast<std::int64_t>(first) * layout.blockBytes;
    const bool direct = !raw && layout.byteLines != 0;
    unpackPanelAvx2(layout, panel, first, count, raw ? scratch.lines : nullptr, scratch.scales, scratch.mins);
    if (layout.values == PanelValues::Small)
        unpackNibbles(layout, block, count, scratch.lines);
    else if (!direct && !raw)
        unpackLinesAvx512Vnni(layout, block, count, scratch.lines);
    return {direct ? block : scratch.lines,
            scratch.scales,
            layout.hasMin ? scratch.mins : nullptr,
            count,
            direct ? layout.blockBytes : 8 * lineBytes,
            0};
}

using AddSlice = void (*)(const PanelSlice &, int, const QuantRows &, int, float *);

AddSlice addSliceOf(const PanelLayout &layout)
{
    if (layout.groupWidth == 16)
        return layout.hasMin ? addSlice<true, true> : addSlice<false, true>;
    return layout.hasMin ? addSlice<true, false> : addSlice<false, false>;
}

void quantPanel(const PanelLayout &layout, const std::uint8_t *panel, const QuantRows &x, const Outliers &outliers,
                int rows, const PanelScratch &scratch, float *tile)
{
    if (rows < leastRows)
        return quantPanelAvx512Vnni(layout, panel, x, outliers, rows, scratch, tile);
    const AddSlice add = addSliceOf(layout);
    const SliceNumbers form{false, true, false, layout.hasMin, 0, blockWidth / layout.groupWidth};
    OutlierWalk walk{};
    tiles::configure(configOf(layout.groupWidth, rows % tileHeight));
    for (int b = 0; b < layout.blocks; b += quantSliceBlocks) {
        const int count = layout.blocks - b < quantSliceBlocks ? layout.blocks - b : quantSliceBlocks;
        const PanelSlice slice = signedSlice(layout, panel, b, count, scratch);
        add(slice, b, x, rows, tile);
        addOutliersAvx512(slice, form, b, outliers, walk, rows, scratch.columns, tile);
    }
    tiles::release();
}

} // namespace

#if defined(LATHE_EMULATED_TILES)
LevelKernels emulatedAmxKernels()
#else
LevelKernels amxKernels()
#endif
{
    LevelKernels kernels = avx512VnniKernels();
    kernels.quantPanel = quantPanel;
    kernels.quantPanelPair = nullptr;
    kernels.takesGroups = false; // tiles read rows, and fewer than a group are left to the level below
    return kernels;
}

} // namespace kernels
