// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// Pieces of paged attention: the online softmax of rows, and tiles of keys and values in shared memory.
/// Source: Milakov and Gimelshein 2018, arXiv:1805.02867 (online softmax); Dao 2023, arXiv:2307.08691 (tiles).

#include "kernels/cuda/device.cuh"

namespace kernels::cuda {

constexpr int tileKeys = 64;
constexpr float log2OfE = 1.4426950408889634F;

/// Factors that bring two partial sums under one maximum. One that saw no key leaves the other as it is, bit for bit.
struct Merge {
    float largest;
    float before; ///< factor of what was there
    float added;  ///< factor of what comes to it
};

__device__ __forceinline__ Merge mergeOf(float before, float added)
{
    if (added == -INFINITY)
        return {before, 1.0F, 0.0F};
    if (before == -INFINITY)
        return {added, 0.0F, 1.0F};
    const float largest = fmaxf(before, added);
    return {largest, ptx::exp2Fast(before - largest), ptx::exp2Fast(added - largest)};
}

__device__ __forceinline__ float merged(const Merge &merge, float before, float added)
{
    return fmaf(merge.added, added, merge.before * before);
}

/// Factor 1 / sum of a row once its sink, a score without a value, is added to its sum (in units of log2).
__device__ __forceinline__ float finishFactor(float largest, float sum, const float *sinks, int head)
{
    if (sinks == nullptr)
        return 1.0F / sum;
    const float sink = sinks[head] * log2OfE;
    const Merge merge = mergeOf(largest, sink);
    return merge.before / merged(merge, sum, 1.0F);
}

__device__ __forceinline__ unsigned wordAt(const std::uint8_t *bytes, int index)
{
    return static_cast<unsigned>(reinterpret_cast<const std::uint16_t *>(bytes)[index]);
}

/// Element i of a stored row.
__device__ __forceinline__ float elementOf(DType type, const std::uint8_t *row, int i)
{
    switch (type) {
    case DType::F16:
        return __half2float(__ushort_as_half(static_cast<unsigned short>(wordAt(row, i))));
    case DType::BF16:
        return __uint_as_float(wordAt(row, i) << 16);
    case DType::E4M3:
        return e4m3ToFloat(row[i]);
    default: { // Q8_0
        const std::uint8_t *block = row + i / 32 * 34;
        const float scale = __half2float(__ushort_as_half(static_cast<unsigned short>(wordAt(block, 0))));
        return scale * static_cast<float>(static_cast<std::int8_t>(block[2 + i % 32]));
    }
    }
}

template<typename T> __device__ __forceinline__ T numberOf(float value)
{
    if constexpr (std::is_same_v<T, __half>)
        return __float2half_rn(value);
    else
        return __float2bfloat16_rn(value);
}

template<typename T> __device__ __forceinline__ float valueOf(T number)
{
    if constexpr (std::is_same_v<T, __half>)
        return __half2float(number);
    else
        return __bfloat162float(number);
}

/// Starts to copy eight elements of a stored row into the tile, or converts them; zeros beyond the row's end.
template<typename T>
__device__ __forceinline__ void loadChunk(const KvPlane &plane, const std::uint8_t *row, int first, T *target)
{
    constexpr DType same = std::is_same_v<T, __half> ? DType::F16 : DType::BF16;
    if (plane.type == same && plane.headDim % 8 == 0 && first < plane.headDim) {
        ptx::copyAsync16(target, row + 2 * first, 16);
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i)
        target[i] = numberOf<T>(first + i < plane.headDim ? elementOf(plane.type, row, first + i) : 0.0F);
}

/// Tile of `tileKeys` rows from position `firstKey`, as one group of copies. Rows before `begin`, which no query of the
/// tile sees, and those from `context` on become zeros: their blocks may be others' by now, or were never written.
template<int dim, typename T, int threads>
__device__ __forceinline__ void loadTile(const KvPlane &plane, const int *table, int head, int firstKey, int begin,
                                         int context, T *tile)
{
    constexpr int chunks = dim / 8;
    for (int i = static_cast<int>(threadIdx.x); i < tileKeys * chunks; i += threads) {
        const int key = firstKey + i / chunks;
        T *target = tile + i / chunks * (dim + 8) + i % chunks * 8;
        if (key < begin || key >= context) {
            ptx::store<uint4>(target, make_uint4(0, 0, 0, 0));
            continue;
        }
        const std::int64_t line = static_cast<std::int64_t>(head) * plane.blockTokens + key % plane.blockTokens;
        const std::byte *row = plane.data + table[key / plane.blockTokens] * plane.blockStride + line * plane.rowBytes;
        loadChunk(plane, reinterpret_cast<const std::uint8_t *>(row), i % chunks * 8, target);
    }
    ptx::commitCopies();
}

} // namespace kernels::cuda
