// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// What the kernels of products share: the order of columns, and units as operands of a step.

#include "kernels/cuda/product_k_units.cuh"

namespace kernels::cuda::product {

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

/// The units of one row, or of the last one for rows beyond it.
template<typename Format> struct RowUnits {
    static constexpr int perBlock = Format::planes.elements / unitColumns;

    const std::uint8_t *head;
    const std::uint8_t *body;

    __device__ RowUnits(const WeightView &weight, int row)
    {
        const auto block =
            static_cast<std::int64_t>(min(row, weight.rows - 1)) * (weight.columns / Format::planes.elements);
        head = reinterpret_cast<const std::uint8_t *>(weight.head) + block * Format::planes.headBytes;
        body = reinterpret_cast<const std::uint8_t *>(weight.body) + block * Format::planes.bodyBytes;
    }

    __device__ typename Units<Format>::Raw at(int unit) const
    {
        return Units<Format>::load(head + unit / perBlock * Format::planes.headBytes,
                                   body + unit / perBlock * Format::planes.bodyBytes, unit % perBlock);
    }
};

} // namespace kernels::cuda::product
