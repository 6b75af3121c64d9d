// SPDX-License-Identifier: GPL-3.0-or-later
// Products in bfloat16 with tiles: 16 rows of activations meet 32 columns of 16 weights in one instruction, and four
// groups of rows share each tile of weights, so that no sum waits for the one before it.
#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/bfloat_panels.h"

namespace kernels {

namespace {

constexpr int tileHeight = 16;
constexpr int tileColumns = 32; ///< of bfloat16 in a row of 64 bytes
constexpr int mostGroups = 4;

// Tile registers. Sums are the first four.
constexpr int activations = 4;
constexpr int weights = 5;
constexpr int restActivations = 6; // the last columns, fewer than 32
constexpr int restWeights = 7;

/// Products of `height` rows, with `restPairs` pairs of columns behind the whole tiles.
TileConfig configOf(int height, int restPairs)
{
    TileConfig config;
    const auto rows = static_cast<std::uint8_t>(height);
    const auto pairs = static_cast<std::uint8_t>(restPairs);
    for (int t = 0; t < mostGroups; ++t) {
        config.rows[t] = rows;
        config.rowBytes[t] = lineBytes;
    }
    config.rows[activations] = rows;
    config.rowBytes[activations] = lineBytes;
    config.rows[weights] = tileHeight;
    config.rowBytes[weights] = lineBytes;
    if (pairs > 0) {
        config.rows[restActivations] = rows;
        config.rowBytes[restActivations] = static_cast<std::uint16_t>(pairs * 4);
        config.rows[restWeights] = pairs;
        config.rowBytes[restWeights] = lineBytes;
    }
    return config;
}

/// A slice of activations x [.., stride] and of pairs.
struct Slice {
    const std::uint16_t *x;
    std::int64_t stride;
    const std::uint16_t *pairs;
    int tiles;     ///< whole ones of 32 columns
    int restPairs; ///< behind them
    bool first;
};

/// The sums of group `Group` enter their register, or leave it.
template<int Group> inline __attribute__((always_inline)) void begin(bool first, const float *out)
{
    if (first)
        tiles::zero<Group>();
    else
        tiles::load<Group>(out + Group * tileHeight * panelRows, lineBytes);
}

template<int Group> inline __attribute__((always_inline)) void end(float *out)
{
    tiles::store<Group>(out + Group * tileHeight * panelRows, lineBytes);
}

template<int Group, int A, int B>
inline __attribute__((always_inline)) void add(const std::uint16_t *x, std::int64_t stride)
{
    tiles::load<A>(x + Group * tileHeight * stride, stride * 2);
    tiles::addBfloatProducts<Group, A, B>();
}

template<int Groups, int A, int B>
inline __attribute__((always_inline)) void addTile(const std::uint16_t *x, std::int64_t stride,
                                                   const std::uint16_t *pairs)
{
    tiles::load<B>(pairs, lineBytes);
    add<0, A, B>(x, stride);
    if constexpr (Groups > 1)
        add<1, A, B>(x, stride);
    if constexpr (Groups > 2)
        add<2, A, B>(x, stride);
    if constexpr (Groups > 3)
        add<3, A, B>(x, stride);
}

template<int Groups> void addSlice(const Slice &slice, int row, float *tile)
{
    float *out = tile + row * panelRows;
    const std::uint16_t *x = slice.x + row * slice.stride;
    begin<0>(slice.first, out);
    if constexpr (Groups > 1)
        begin<1>(slice.first, out);
    if constexpr (Groups > 2)
        begin<2>(slice.first, out);
    if constexpr (Groups > 3)
        begin<3>(slice.first, out);
    for (int t = 0; t < slice.tiles; ++t)
        addTile<Groups, activations, weights>(x + t * tileColumns, slice.stride,
                                              slice.pairs + t * tileColumns * panelRows);
    if (slice.restPairs > 0)
        addTile<Groups, restActivations, restWeights>(x + slice.tiles * tileColumns, slice.stride,
                                                      slice.pairs + slice.tiles * tileColumns * panelRows);
    end<0>(out);
    if constexpr (Groups > 1)
        end<1>(out);
    if constexpr (Groups > 2)
        end<2>(out);
    if constexpr (Groups > 3)
        end<3>(out);
}

void addRows(const Slice &slice, int rows, float *tile)
{
    constexpr void (*groups[mostGroups + 1])(const Slice &, int, float *) = {nullptr, addSlice<1>, addSlice<2>,
                                                                             addSlice<3>, addSlice<4>};
    const int full = rows / tileHeight;
    if (full > 0)
        tiles::configure(configOf(tileHeight, slice.restPairs));
    for (int g = 0; g < full; g += mostGroups)
        groups[full - g < mostGroups ? full - g : mostGroups](slice, g * tileHeight, tile);
    if (rows % tileHeight != 0) {
        tiles::configure(configOf(rows % tileHeight, slice.restPairs));
        addSlice<1>(slice, full * tileHeight, tile);
    }
    tiles::release();
}

void bfloatPanel(const PanelLayout &layout, const std::uint8_t *panel, const std::uint16_t *x, std::int64_t stride,
                 int rows, const PanelScratch &scratch, float *out)
{
    for (int start = 0; start < layout.columns; start += bfloatSliceColumns) {
        const int left = layout.columns - start;
        const int count = left < bfloatSliceColumns ? left : bfloatSliceColumns;
        makeBfloatPairs(layout, panel, start, count, scratch);
        const auto *pairs = reinterpret_cast<const std::uint16_t *>(scratch.lines + bfloatPairsAt);
        addRows({x + start, stride, pairs, count / tileColumns, (count % tileColumns + 1) / 2, start == 0}, rows, out);
    }
}

} // namespace

#if defined(LATHE_EMULATED_TILES)
void addEmulatedBfloatTiles(LevelKernels &kernels)
#else
void addBfloatTiles(LevelKernels &kernels)
#endif
{
    kernels.bfloatPanel = bfloatPanel;
}

} // namespace kernels
