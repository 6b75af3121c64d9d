// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// Products from packed weights on the tensor cores, with sums in float.
///
/// One order for every number of rows, so that few (decode) and many (prefill) give the same bits: columns go in groups
/// of 128, four units; step s of eight multiplies numbers 4 s to 4 s + 3 of all four; four groups, a segment, are added
/// in one accumulator, and segments in float, ascending. Weights are the operand of 16 rows, activations that of 8
/// columns. Lane i holds numbers of unit i % 4 of both, each at its place in memory: nothing is transposed or shuffled.
///
/// `rowProductsKernel` is for up to 16 rows: each warp streams segments of 16 features from memory through registers.
/// `tileProductsKernel` is for more: 64 rows share an expanded tile of 64 features.

#include "kernels/cuda/grouping.cuh"
#include "kernels/cuda/product_units.cuh"
#include "kernels/cuda/products.h"

namespace kernels::cuda {

namespace product {

constexpr int groupUnits = 4; ///< of 32 columns
constexpr int groupColumns = groupUnits * unitColumns;
constexpr int segmentGroups = 4;

template<typename Format> constexpr int termsOf = std::is_same_v<Format, FloatFormat<DType::BF16>> ? 2 : 1;

__device__ __forceinline__ int groupsOf(int columns)
{
    return (columns + groupColumns - 1) / groupColumns;
}

/// A step of 16 along k: weights of a lane's feature and of the eighth after it, two pairs of each.
template<typename T>
__device__ __forceinline__ void multiplyStep(float (&sums)[4], const uint4 &weights, unsigned low, unsigned high)
{
    const std::uint32_t a[4] = {weights.x, weights.y, weights.z, weights.w};
    const std::uint32_t b[2] = {low, high};
    ptx::mma16816<T>(sums, a, b);
}

/// The weights of two steps, from eight numbers of a lane's feature and of the eighth after it.
template<typename Format>
__device__ __forceinline__ void expandSteps(const typename Units<Format>::Raw (&raw)[2],
                                            const typename Units<Format>::Scales (&scales)[2], int part,
                                            uint4 (&steps)[2])
{
    unsigned pairs[2][4];
    Units<Format>::expand(raw[0], scales[0], part, pairs[0]);
    Units<Format>::expand(raw[1], scales[1], part, pairs[1]);
    steps[0] = make_uint4(pairs[0][0], pairs[1][0], pairs[0][1], pairs[1][1]);
    steps[1] = make_uint4(pairs[0][2], pairs[1][2], pairs[0][3], pairs[1][3]);
}

// ---- Up to 16 rows

/// Sums of a warp's features with one or two times eight rows.
template<int eights> using RowSums = float[eights][4];

/// Multiplies a group of columns with rows from their place in it. What is multiplied for rows that do not exist is not
/// stored.
template<typename Format, int eights, typename T>
__device__ __forceinline__ void multiplyGroup(RowSums<eights> &sums, const typename Units<Format>::Raw (&raw)[2],
                                              float factor, const T *const (&rows)[eights], int columns)
{
    const typename Units<Format>::Scales scales[2] = {Units<Format>::scales(raw[0], factor),
                                                      Units<Format>::scales(raw[1], factor)};
#pragma unroll
    for (int part = 0; part < 4; ++part) {
        uint4 steps[2];
        expandSteps<Format>(raw, scales, part, steps);
#pragma unroll
        for (int term = 0; term < termsOf<Format>; ++term) {
#pragma unroll
            for (int i = 0; i < eights; ++i) {
                const uint4 row = ptx::loadOften(rows[i] + term * columns + part * 8);
                multiplyStep<T>(sums[i], steps[0], row.x, row.y);
                multiplyStep<T>(sums[i], steps[1], row.z, row.w);
            }
        }
    }
}

/// Adds the segments' sums of a block and writes its outputs.
template<int eights>
__device__ __forceinline__ void storeRows(const float *partials, const WeightView &weight, const CastRows &x,
                                          const ProductTarget &target, const BlockRows &block, int rowsPerToken)
{
    const int segments = segmentsOf(weight.columns);
    const int firstFeature = static_cast<int>(blockIdx.x) * rowFeatures;
    for (int i = static_cast<int>(threadIdx.x); i < block.count * rowFeatures; i += static_cast<int>(blockDim.x)) {
        const int row = i / rowFeatures;
        const int feature = i % rowFeatures;
        const float *own = partials + (row / 8 * rowFeatures + feature) * 8 + row % 8;
        float total = 0.0F;
        for (int segment = 0; segment < segments; ++segment)
            total += own[segment * eights * rowFeatures * 8];
        if (firstFeature + feature < weight.rows)
            storeProduct(total, block.at(row), firstFeature + feature, weight.factor, x, target, rowsPerToken);
    }
}

/// Blocks [features, tiles of 16 rows, heads], of as many warps as suits; each takes every so manieth segment. Dynamic
/// shared memory: rowSharedBytes. `weight` is the weight, or the shape of all that `grouping` has.
template<typename Format, int eights>
__global__ void __launch_bounds__(mostRowWarps(eights) * 32, eights == 1 ? 2 : 3)
    rowProductsKernel(WeightView weight, CastRows x, ProductTarget target, Grouping grouping)
{
    using T = Number<Format>;
    constexpr int ahead = Units<Format>::ahead;
    SIMT_DYNAMIC_SHARED(float, partials); // [segments][eights][rowFeatures][8]
    const BlockRows block = rowsOfBlock<16>(grouping, x.rows);
    if (block.count <= 0)
        return; // the whole block
    const WeightView own = weightOf(grouping, weight, block.expert);
    if (own.type != weight.type)
        return; // the whole block
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int warps = static_cast<int>(blockDim.x) / 32;
    const int groups = groupsOf(own.columns);
    const int feature = static_cast<int>(blockIdx.x) * rowFeatures + lane / 4;
    const RowUnits<Format> units[2] = {{own, feature}, {own, feature + 8}};
    const T *rows[eights];
    for (int i = 0; i < eights; ++i)
        rows[i] = static_cast<const T *>(x.numbers) + lane % 4 * unitColumns
            + static_cast<std::int64_t>(block.at(min(i * 8 + lane / 4, block.count - 1)) / grouping.rowsPerToken)
                * termsOf<Format> * x.columns;
    typename Units<Format>::Raw next[ahead][2];
    const auto load = [&](int group, typename Units<Format>::Raw(&raw)[2]) {
        if (group < groups)
            for (int i = 0; i < 2; ++i)
                raw[i] = units[i].at(group * groupUnits + lane % 4);
    };
#pragma unroll
    for (int i = 0; i < ahead; ++i)
        load(warp * segmentGroups + i, next[i]);
    for (int segment = warp; segment * segmentGroups < groups; segment += warps) {
        RowSums<eights> sums = {};
#pragma unroll 1
        for (int first = 0; first < segmentGroups; first += ahead) {
#pragma unroll
            for (int i = 0; i < ahead; ++i) {
                const int group = segment * segmentGroups + first + i;
                if (group >= groups)
                    break; // the whole warp
                const typename Units<Format>::Raw raw[2] = {next[i][0], next[i][1]};
                load(group + ahead + (first + ahead < segmentGroups ? 0 : (warps - 1) * segmentGroups), next[i]);
                const T *here[eights];
                for (int j = 0; j < eights; ++j)
                    here[j] = rows[j] + group * groupColumns;
                multiplyGroup<Format>(sums, raw, own.factor, here, x.columns);
            }
        }
#pragma unroll
        for (int i = 0; i < eights * 2; ++i) {
            const int place = (segment * eights * 2 + i) * 8 + lane / 4; // eight, feature
            ptx::store<float2>(partials + place * 8 + lane % 4 * 2,
                               make_float2(sums[i / 2][i % 2 * 2], sums[i / 2][i % 2 * 2 + 1]));
        }
    }
    __syncthreads(); // the sums of all segments are there
    target.bias = biasOf(grouping, target.bias, block.expert);
    storeRows<eights>(partials, own, x, target, block, grouping.rowsPerToken);
}

// ---- Tiles of 64 rows

// Tiles in shared memory are cells of 16 bytes: what the 32 lanes read at once lies in a row. Weights: [tile of 16
// features][step][lane]. Activations: [term][eight rows][part of a unit][row, unit], with two cells more for each part,
// so that copies of neighbouring columns of a row meet in no bank.
constexpr int partCells = 32 + 2;
constexpr int eightCells = 4 * partCells;
constexpr int rowTileCells = tileRows / 8 * eightCells;
constexpr int weightTileCells = tileFeatures / 16 * 8 * 32;

/// What a thread copies of every tile of activations: 16 bytes of the same columns of several rows.
template<int terms, typename T> struct RowChunks {
    static constexpr int perRow = groupColumns / 8;
    static constexpr int rowsApart = tileThreads / perRow;
    static constexpr int own = tileRows * terms / rowsApart;

    const T *from[own]; ///< null for rows that do not exist

    __device__ __forceinline__ RowChunks(const CastRows &x, const BlockRows &block, int rowsPerToken)
    {
#pragma unroll
        for (int i = 0; i < own; ++i) {
            const int line = lineOf(i); // term * tileRows + row
            from[i] = nullptr;
            if (line % tileRows < block.count)
                from[i] = static_cast<const T *>(x.numbers) + static_cast<int>(threadIdx.x) % perRow * 8
                    + (static_cast<std::int64_t>(block.at(line % tileRows) / rowsPerToken) * terms + line / tileRows)
                        * x.columns;
        }
    }

    __device__ __forceinline__ static int lineOf(int i)
    {
        return i * rowsApart + static_cast<int>(threadIdx.x) / perRow;
    }

    /// Starts the copies of the tile from `column`.
    __device__ __forceinline__ void fetch(const CastRows &x, int column, uint4 *tile) const
    {
        const int chunk = static_cast<int>(threadIdx.x) % perRow;
#pragma unroll
        for (int i = 0; i < own; ++i) {
            const int line = lineOf(i);
            ptx::copyAsync16(tile + line / 8 * eightCells + chunk % 4 * partCells + line % 8 * 4 + chunk / 4,
                             from[i] != nullptr ? from[i] + column : x.numbers, from[i] != nullptr ? 16 : 0);
        }
        ptx::commitCopies();
    }
};

/// Sums of a warp: 32 features x 32 rows of the tile, in fragments of 16 x 8.
using TileSums = float[2][4][4];

/// Multiplies a group of columns.
template<int terms, typename T>
__device__ __forceinline__ void multiplyTiles(const uint4 *xTile, const uint4 *wTile, TileSums &sums)
{
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const uint4 *weights = wTile + warp / 2 * 2 * 8 * 32 + lane;
    const uint4 *rows = xTile + warp % 2 * 4 * eightCells + lane;
#pragma unroll
    for (int part = 0; part < 4; ++part) {
        uint4 steps[2][2];
#pragma unroll
        for (int i = 0; i < 4; ++i)
            steps[i / 2][i % 2] = weights[(i / 2 * 8 + part * 2 + i % 2) * 32];
#pragma unroll
        for (int j = 0; j < 4 * terms; ++j) {
            const uint4 row = rows[j / 4 * rowTileCells + j % 4 * eightCells + part * partCells];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                multiplyStep<T>(sums[i][j % 4], steps[i][0], row.x, row.y);
                multiplyStep<T>(sums[i][j % 4], steps[i][1], row.z, row.w);
            }
        }
    }
}

__device__ __forceinline__ void addSegment(TileSums &totals, TileSums &sums)
{
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        totals[i / 16][i / 4 % 4][i % 4] += sums[i / 16][i / 4 % 4][i % 4];
        sums[i / 16][i / 4 % 4][i % 4] = 0.0F;
    }
}

__device__ __forceinline__ void storeTiles(const TileSums &totals, const WeightView &weight, const CastRows &x,
                                           const ProductTarget &target, const BlockRows &block, int rowsPerToken)
{
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int firstFeature = static_cast<int>(blockIdx.x) * tileFeatures + warp / 2 * 32 + lane / 4;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        const int r = warp % 2 * 32 + i / 4 % 4 * 8 + lane % 4 * 2 + i % 2;
        const int feature = firstFeature + i / 16 * 16 + i / 2 % 2 * 8;
        if (r < block.count && feature < weight.rows)
            storeProduct(totals[i / 16][i / 4 % 4][i % 4], block.at(r), feature, weight.factor, x, target,
                         rowsPerToken);
    }
}

/// Two tiles of activations, so that one is fetched while the other is in use; one where they have two terms.
template<typename Format> constexpr int tileStages = termsOf<Format> == 1 ? 2 : 1;
template<typename Format>
constexpr int tileBytes = (tileStages<Format> * termsOf<Format> * rowTileCells + weightTileCells) * 16;

/// Blocks [features, tiles of rows, heads]. A warp expands the weights of 16 features.
template<typename Format>
__global__ void __launch_bounds__(tileThreads, 2)
    tileProductsKernel(WeightView weight, CastRows x, ProductTarget target, Grouping grouping)
{
    constexpr int terms = termsOf<Format>;
    constexpr int stages = tileStages<Format>;
    SIMT_DYNAMIC_SHARED(uint4, wTile); // then `stages` tiles of activations
    const auto xTile = [&](int group) { return wTile + weightTileCells + group % stages * terms * rowTileCells; };
    const BlockRows block = rowsOfBlock<tileRows>(grouping, x.rows);
    if (block.count <= 0)
        return; // the whole block
    const WeightView own = weightOf(grouping, weight, block.expert);
    if (own.type != weight.type)
        return; // the whole block
    const RowChunks<terms, Number<Format>> chunks(x, block, grouping.rowsPerToken);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int feature = static_cast<int>(blockIdx.x) * tileFeatures + warp * 16 + lane / 4;
    const RowUnits<Format> units[2] = {{own, feature}, {own, feature + 8}};
    typename Units<Format>::Raw raw[2] = {units[0].at(lane % 4), units[1].at(lane % 4)};
    const int groups = groupsOf(own.columns);
    TileSums sums = {};
    TileSums totals = {};
    if (stages > 1)
        chunks.fetch(x, 0, xTile(0));
    for (int group = 0; group < groups; ++group) {
        if (stages == 1)
            chunks.fetch(x, group * groupColumns, xTile(group));
        const typename Units<Format>::Scales scales[2] = {Units<Format>::scales(raw[0], own.factor),
                                                          Units<Format>::scales(raw[1], own.factor)};
#pragma unroll
        for (int part = 0; part < 4; ++part) {
            uint4 steps[2];
            expandSteps<Format>(raw, scales, part, steps);
            wTile[(warp * 8 + part * 2) * 32 + lane] = steps[0];
            wTile[(warp * 8 + part * 2 + 1) * 32 + lane] = steps[1];
        }
        ptx::waitCopies<0>();
        __syncthreads(); // both tiles are there
        if (group + 1 < groups) {
            if (stages > 1)
                chunks.fetch(x, (group + 1) * groupColumns, xTile(group + 1));
            for (int i = 0; i < 2; ++i)
                raw[i] = units[i].at((group + 1) * groupUnits + lane % 4);
        }
        multiplyTiles<terms, Number<Format>>(xTile(group), wTile, sums);
        if (group % segmentGroups == segmentGroups - 1 || group + 1 == groups)
            addSegment(totals, sums);
        __syncthreads(); // nobody reads the tiles any more
    }
    target.bias = biasOf(grouping, target.bias, block.expert);
    storeTiles(totals, own, x, target, block, grouping.rowsPerToken);
}

// ---- For other libraries

/// A unit for each thread.
template<typename Format>
__global__ void __launch_bounds__(tileThreads) expandKernel(WeightView weight, int firstRow, int rows, uint4 *out)
{
    const int units = weight.columns / unitColumns;
    const auto at = static_cast<std::int64_t>(blockIdx.x) * tileThreads + static_cast<int>(threadIdx.x);
    if (at >= static_cast<std::int64_t>(rows) * units)
        return;
    const RowUnits<Format> row(weight, firstRow + static_cast<int>(at / units));
    const typename Units<Format>::Raw raw = row.at(static_cast<int>(at % units));
    const typename Units<Format>::Scales scales = Units<Format>::scales(raw, weight.factor);
#pragma unroll
    for (int part = 0; part < 4; ++part) {
        unsigned pairs[4];
        Units<Format>::expand(raw, scales, part, pairs);
        out[at * 4 + part] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    }
}

template<typename Format> void launchExpanded(const ProductLaunch &launch)
{
    const std::int64_t units = std::int64_t{launch.expandedRows} * (launch.weight.columns / unitColumns);
    const dim3 grid(static_cast<unsigned>((units + tileThreads - 1) / tileThreads));
    checkLaunch(simt::launch(expandKernel<Format>, grid, dim3(tileThreads), 0, launch.stream, launch.weight,
                             launch.firstRow, launch.expandedRows, launch.expanded),
                "expand");
}

/// Launches for the types of a list of formats. \returns whether the weight's is one
template<typename Formats> bool launchFor(Formats formats, const ProductLaunch &launch)
{
    return withFormat(formats, launch.weight.type, [&]<typename Format>() {
        if (launch.expanded != nullptr)
            return launchExpanded<Format>(launch);
        const auto run = [&](auto *kernel, int threads, int sharedBytes) {
            checkLaunch(simt::launch(kernel, launch.grid, dim3(static_cast<unsigned>(threads)),
                                     static_cast<std::size_t>(sharedBytes), launch.stream, launch.weight, launch.x,
                                     launch.target, launch.grouping),
                        "products");
        };
        const int segments = segmentsOf(launch.weight.columns);
        const auto runRows = [&](auto *kernel, int eights) {
            run(kernel, min(segments, mostRowWarps(eights)) * 32, rowSharedBytes(segments, eights));
        };
        if (launch.rowsOfTile == tileRows)
            run(tileProductsKernel<Format>, tileThreads, tileBytes<Format>);
        else if (launch.mostRows <= 8)
            runRows(rowProductsKernel<Format, 1>, 1);
        else
            runRows(rowProductsKernel<Format, 2>, 2);
    });
}

} // namespace product

} // namespace kernels::cuda
