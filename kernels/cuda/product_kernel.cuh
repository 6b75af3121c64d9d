// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// Products from packed weights on the tensor cores: a tile of weights is expanded into shared memory and multiplied as
/// half or bfloat16, with sums in float.
///
/// One order for every number of rows: an output is the sum of steps of 16 along k, ascending, in one accumulator, so
/// few rows (decode) and many (prefill) give the same bits. The two tile heights differ in how many rows share a tile
/// of weights, and in nothing else; experts' rows are found through a table, and are products as any others.

#include "kernels/cuda/grouping.cuh"
#include "kernels/cuda/products.h"
#include "kernels/cuda/weight_formats.cuh"

namespace kernels::cuda {

namespace product {

constexpr int tileDepth = 32;
constexpr int threads = 128;
constexpr int stride = tileDepth + 8; // elements; rows of 80 bytes meet in no bank

template<typename Format>
using Number = std::conditional_t<std::is_same_v<Format, FloatFormat<DType::BF16>>, __nv_bfloat16, __half>;
template<typename Format> constexpr int termsOf = std::is_same_v<Format, FloatFormat<DType::BF16>> ? 2 : 1;

template<typename T> __device__ __forceinline__ unsigned pairOf(float low, float high)
{
    unsigned bits = 0;
    if constexpr (std::is_same_v<T, __half>) {
        const __half2 pair = __floats2half2_rn(low, high);
        memcpy(&bits, &pair, sizeof bits);
    } else {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        memcpy(&bits, &pair, sizeof bits);
    }
    return bits;
}

/// Expands 16 numbers of one row of the tile of weights, a thread's share.
template<typename Format, typename T>
__device__ __forceinline__ void expandTile(const WeightView &weight, int firstRow, int firstColumn, T *tile)
{
    const int row = static_cast<int>(threadIdx.x) / 2;
    const int column = static_cast<int>(threadIdx.x) % 2 * 16;
    for (int part = 0; part < 16; part += 8) {
        float numbers[8] = {};
        if (firstRow + row < weight.rows)
            expandAt<Format>(weight, firstRow + row, firstColumn + column + part, numbers);
        for (float &number : numbers)
            number *= weight.factor;
        const uint4 packed = make_uint4(pairOf<T>(numbers[0], numbers[1]), pairOf<T>(numbers[2], numbers[3]),
                                        pairOf<T>(numbers[4], numbers[5]), pairOf<T>(numbers[6], numbers[7]));
        ptx::store<uint4>(tile + row * stride + column + part, packed);
    }
}

/// What a thread copies of every tile of activations, in which all terms stand one after the other: chunks of 16 bytes,
/// from column 0 of their rows.
template<int rows, int terms, typename T> struct RowChunks {
    static constexpr int perRow = tileDepth / 8;
    static constexpr int all = rows * terms * perRow;
    static constexpr int own = (all + threads - 1) / threads;

    const T *from[own]; ///< null for rows that do not exist

    __device__ __forceinline__ RowChunks(const CastRows &x, const BlockRows &block, int rowsPerToken)
    {
#pragma unroll
        for (int i = 0; i < own; ++i) {
            const int chunk = i * threads + static_cast<int>(threadIdx.x);
            const int line = chunk / perRow; // term * rows + row
            from[i] = nullptr;
            if (line % rows < block.count && chunk < all)
                from[i] = static_cast<const T *>(x.numbers) + chunk % perRow * 8
                    + (static_cast<std::int64_t>(block.at(line % rows) / rowsPerToken) * terms + line / rows)
                        * x.columns;
        }
    }

    /// Starts the copies of the tile from `column`.
    __device__ __forceinline__ void fetch(const CastRows &x, int column, T *tile) const
    {
#pragma unroll
        for (int i = 0; i < own; ++i) {
            const int chunk = i * threads + static_cast<int>(threadIdx.x);
            if (chunk < all)
                ptx::copyAsync16(tile + chunk / perRow * stride + chunk % perRow * 8,
                                 from[i] != nullptr ? from[i] + column : x.numbers, from[i] != nullptr ? 16 : 0);
        }
    }
};

/// Multiplies one step of 16 along k.
template<int tiles, int terms, typename T>
__device__ __forceinline__ void multiplyStep(const T *xTile, const T *wTile, int k, float (&sums)[tiles][2][4])
{
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    std::uint32_t pairs[4];
    ptx::loadMatrices<false>(pairs, wTile + (warp * 16 + lane / 16 * 8 + lane % 8) * stride + k + lane / 8 % 2 * 8);
    const std::uint32_t b[2][2] = {{pairs[0], pairs[1]}, {pairs[2], pairs[3]}};
#pragma unroll
    for (int term = 0; term < terms; ++term) {
#pragma unroll
        for (int tile = 0; tile < tiles; ++tile) {
            std::uint32_t a[4];
            ptx::loadMatrices<false>(a, xTile + ((term * tiles + tile) * 16 + lane % 16) * stride + k + lane / 16 * 8);
            ptx::mma16816<T>(sums[tile][0], a, b[0]);
            ptx::mma16816<T>(sums[tile][1], a, b[1]);
        }
    }
}

template<int tiles>
__device__ __forceinline__ void storeProducts(const float (&sums)[tiles][2][4], const WeightView &weight,
                                              const CastRows &x, const ProductTarget &target, const BlockRows &block,
                                              int rowsPerToken)
{
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int firstFeature =
        static_cast<int>(blockIdx.x) * tileColumns + static_cast<int>(threadIdx.x) / 32 * 16 + lane % 4 * 2;
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int i = tile * 16 + half * 8 + lane / 4;
            if (i >= block.count)
                continue;
            const int row = block.at(i);
            const float scale = x.scales[row / rowsPerToken] / weight.factor;
            float *out = rowOf(target.out, row);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int feature = firstFeature + j / 2 * 8 + j % 2;
                if (feature >= weight.rows)
                    continue;
                const float bias = target.bias != nullptr ? target.bias[feature] : 0.0F;
                const float value = fmaf(sums[tile][j / 2][half * 2 + j % 2], scale, bias);
                out[feature] = target.add ? out[feature] + value : value;
            }
        }
    }
}

/// Blocks [features, tiles of rows, heads]. `weight` is the weight, or the shape of all that `grouping` has.
template<typename Format, int tiles>
__global__ void __launch_bounds__(threads, 3)
    productsKernel(WeightView weight, CastRows x, ProductTarget target, Grouping grouping)
{
    using T = Number<Format>;
    constexpr int terms = termsOf<Format>;
    constexpr int rows = tiles * 16;
    SIMT_SHARED(T, xTiles, [2][rows * terms * stride]);
    SIMT_SHARED(T, wTiles, [2][tileColumns * stride]);
    const BlockRows block = rowsOfBlock<rows>(grouping, x.rows);
    if (block.count <= 0)
        return; // the whole block
    const WeightView own = weightOf(grouping, weight, block.expert);
    if (own.type != weight.type)
        return; // the whole block
    target.bias = biasOf(grouping, target.bias, block.expert);
    const RowChunks<rows, terms, T> chunks(x, block, grouping.rowsPerToken);
    const int firstFeature = static_cast<int>(blockIdx.x) * tileColumns;
    float sums[tiles][2][4] = {};
    const int steps = own.columns / tileDepth;
    chunks.fetch(x, 0, xTiles[0]);
    ptx::commitCopies();
    expandTile<Format>(own, firstFeature, 0, wTiles[0]);
    for (int step = 0; step < steps; ++step) {
        ptx::waitCopies<0>();
        __syncthreads(); // both tiles are there, and nobody reads the other two any more
        if (step + 1 < steps) {
            chunks.fetch(x, (step + 1) * tileDepth, xTiles[(step + 1) % 2]);
            ptx::commitCopies();
            expandTile<Format>(own, firstFeature, (step + 1) * tileDepth, wTiles[(step + 1) % 2]);
        }
#pragma unroll
        for (int k = 0; k < tileDepth; k += 16)
            multiplyStep<tiles, terms>(xTiles[step % 2], wTiles[step % 2], k, sums);
    }
    storeProducts(sums, own, x, target, block, grouping.rowsPerToken);
}

/// Launches for the types of a list of formats. \returns whether the weight's is one
template<typename Formats> bool launchFor(Formats formats, const ProductLaunch &launch)
{
    return withFormat(formats, launch.weight.type, [&]<typename Format>() {
        checkLaunch(simt::launch(launch.tileRows == 16 ? productsKernel<Format, 1> : productsKernel<Format, 4>,
                                 launch.grid, dim3(threads), 0, launch.stream, launch.weight, launch.x, launch.target,
                                 launch.grouping),
                    "products");
    });
}

} // namespace product

} // namespace kernels::cuda
