// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// A product with packed weights, as products.cu hands it to the file that has kernels for the type.

#include "kernels/cuda/grouping.cuh"

namespace kernels::cuda::product {

// Of a block for up to 16 rows.
constexpr int rowFeatures = 16;
/// For one or two times eight rows.
constexpr int mostRowWarps(int eights)
{
    return eights == 1 ? 8 : 4;
}
// Of a block for more.
constexpr int tileRows = 64;
constexpr int tileFeatures = 64;
constexpr int tileThreads = 128;

/// Pieces of 512 columns, each with a sum of its own.
__host__ __device__ constexpr int segmentsOf(int columns)
{
    constexpr int segmentColumns = 512;
    return (columns + segmentColumns - 1) / segmentColumns;
}

/// Shared memory of a block for one or two times eight rows.
constexpr int rowSharedBytes(int segments, int eights)
{
    return segments * eights * 8 * rowFeatures * static_cast<int>(sizeof(float));
}

/// A product, or weights that are expanded to memory.
struct ProductLaunch {
    WeightView weight;
    CastRows x;
    ProductTarget target;
    Grouping grouping = {};
    int rowsOfTile = 16; ///< 16 or 64
    int mostRows = 16;   ///< that a tile has
    dim3 grid = {};
    StreamHandle stream = nullptr;

    // Rows of the weight that are expanded; no product then.
    uint4 *expanded = nullptr;
    int firstRow = 0;
    int expandedRows = 0;
};

/// Writes one output from its sum over all columns.
__device__ __forceinline__ void storeProduct(float sum, int row, int feature, float factor, const CastRows &x,
                                             const ProductTarget &target, int rowsPerToken)
{
    float &out = rowOf(target.out, row)[feature];
    const float scale = x.scales[row / rowsPerToken] / factor;
    const float bias = target.bias != nullptr ? target.bias[feature] : 0.0F;
    const float value = fmaf(sum, scale, bias);
    out = target.add ? out + value : value;
}

/// Each launches for some types. \returns whether the weight's is one of them
bool launchPlain(const ProductLaunch &launch);
bool launchK(const ProductLaunch &launch);
bool launchGroup(const ProductLaunch &launch);
bool launchLevels(const ProductLaunch &launch);
bool launchIntegers(const ProductLaunch &launch);

} // namespace kernels::cuda::product
