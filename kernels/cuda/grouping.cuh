// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// Which rows a block of a product works on, and with which weight.

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch_experts.h"

namespace kernels::cuda {

/// One weight for all rows; or `views`, with a table of tiles, or one for each of `heads`.
struct Grouping {
    const WeightView *views = nullptr;
    const int *rows = nullptr;
    const ExpertTile *tiles = nullptr;
    const float *const *biases = nullptr;
    int firstBias = 0;
    int rowsPerToken = 1;
    int heads = 0;
};

/// The rows of a block: row i is rows[first + i], or (first + i) * step + offset.
struct BlockRows {
    const int *rows = nullptr;
    int expert = 0;
    int first = 0;
    int count = 0; ///< may be below 1
    int step = 1;
    int offset = 0;

    __device__ int at(int i) const { return rows != nullptr ? rows[first + i] : (first + i) * step + offset; }
};

/// Tiles of `tileRows` rows along y. Along z: the parts of the table's tiles, or heads.
template<int tileRows> __device__ __forceinline__ BlockRows rowsOfBlock(const Grouping &grouping, int rowCount)
{
    BlockRows own;
    if (grouping.tiles != nullptr) {
        const ExpertTile tile = grouping.tiles[blockIdx.y];
        const int part = static_cast<int>(blockIdx.z) * tileRows;
        own.rows = grouping.rows;
        own.expert = tile.expert;
        own.first = tile.first + part;
        own.count = min(tileRows, tile.count - part);
        return own;
    }
    own.first = static_cast<int>(blockIdx.y) * tileRows;
    if (grouping.heads > 0) {
        own.expert = static_cast<int>(blockIdx.z);
        own.step = grouping.heads;
        own.offset = own.expert;
        rowCount /= grouping.heads;
    }
    own.count = min(tileRows, rowCount - own.first);
    return own;
}

/// The weight that a block multiplies with; of another type than `weight` where the launch leaves it out.
__device__ __forceinline__ WeightView weightOf(const Grouping &grouping, const WeightView &weight, int expert)
{
    return grouping.views != nullptr ? grouping.views[expert] : weight;
}

/// [features] or null.
__device__ __forceinline__ const float *biasOf(const Grouping &grouping, const float *bias, int expert)
{
    return grouping.biases != nullptr ? grouping.biases[expert] + grouping.firstBias : bias;
}

inline Grouping groupingOf(const ExpertWeights &weights, const RowGroups &groups, int rowsPerToken,
                           const ExpertTarget &target)
{
    Grouping grouping;
    grouping.views = weights.views;
    grouping.rows = groups.rows;
    grouping.tiles = groups.tiles;
    grouping.biases = target.biases;
    grouping.firstBias = target.firstColumn;
    grouping.rowsPerToken = rowsPerToken;
    return grouping;
}

inline Grouping groupingOf(const ExpertWeights &weights, int heads)
{
    Grouping grouping;
    grouping.views = weights.views;
    grouping.heads = heads;
    return grouping;
}

/// What a launch for `weights` knows of each of them.
inline WeightView shapeOf(const ExpertWeights &weights)
{
    return {weights.type, nullptr, nullptr, weights.rows, weights.columns, 1.0F};
}

inline ProductTarget productTarget(const ExpertTarget &target)
{
    ProductTarget products{target.out, nullptr, false};
    products.out.data += target.firstColumn;
    return products;
}

} // namespace kernels::cuda
