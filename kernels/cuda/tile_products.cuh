// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// Products of more rows: 64 of them share an expanded tile of 64 features.

#include "kernels/cuda/grouping.cuh"
#include "kernels/cuda/product_steps.cuh"
#include "kernels/cuda/products.h"

namespace kernels::cuda::product {

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

} // namespace kernels::cuda::product
