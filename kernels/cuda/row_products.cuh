// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// Products of up to 16 rows: each warp streams segments of 16 features from memory through registers.

#include "kernels/cuda/grouping.cuh"
#include "kernels/cuda/product_steps.cuh"
#include "kernels/cuda/products.h"

namespace kernels::cuda::product {

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

} // namespace kernels::cuda::product
