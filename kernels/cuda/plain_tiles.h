// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// What tensor cores do for a warp of 32 lanes, with shuffles and fma alone: for GPUs without mma.sync. The same
/// fragments, sums by ascending k. Source: PTX ISA 9.0, section 9.7.14.5.

#include "kernels/simt/simt.h"

namespace ptx::plain {

__device__ __forceinline__ int laneOfWarp()
{
    return static_cast<int>(threadIdx.x) % 32;
}

/// The row whose address `lane` gave.
__device__ __forceinline__ const std::uint16_t *rowOfLane(const void *row, int lane)
{
    return reinterpret_cast<const std::uint16_t *>(
        __shfl_sync(~0U, static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(row)), lane));
}

template<bool transposed> __device__ __forceinline__ void loadMatrices(std::uint32_t (&out)[4], const void *row)
{
    const int lane = laneOfWarp();
    const int pair = lane % 4 * 2;
    for (int matrix = 0; matrix < 4; ++matrix) {
        std::uint32_t low = 0;
        std::uint32_t high = 0;
        if constexpr (transposed) {
            low = rowOfLane(row, matrix * 8 + pair)[lane / 4];
            high = rowOfLane(row, matrix * 8 + pair + 1)[lane / 4];
        } else {
            const std::uint16_t *numbers = rowOfLane(row, matrix * 8 + lane / 4);
            low = numbers[pair];
            high = numbers[pair + 1];
        }
        out[matrix] = low | high << 16;
    }
}

template<typename T> __device__ __forceinline__ float numberOf(std::uint32_t words, int half)
{
    const auto bits = static_cast<unsigned short>(words >> 16 * half);
    if constexpr (std::is_same_v<T, __half>)
        return __half2float(__ushort_as_half(bits));
    else
        return __uint_as_float(static_cast<std::uint32_t>(bits) << 16);
}

template<typename T>
__device__ __forceinline__ void mma16816(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2])
{
    const int lane = laneOfWarp();
    for (int part = 0; part < 2; ++part) {
        for (int pair = 0; pair < 4; ++pair) { // k = 8 * part + 2 * pair and the next
            const std::uint32_t upper = __shfl_sync(~0U, a[2 * part], lane / 4 * 4 + pair);
            const std::uint32_t lower = __shfl_sync(~0U, a[2 * part + 1], lane / 4 * 4 + pair);
            const std::uint32_t left = __shfl_sync(~0U, b[part], lane % 4 * 8 + pair);
            const std::uint32_t right = __shfl_sync(~0U, b[part], lane % 4 * 8 + 4 + pair);
            for (int half = 0; half < 2; ++half) {
                d[0] = fmaf(numberOf<T>(upper, half), numberOf<T>(left, half), d[0]);
                d[1] = fmaf(numberOf<T>(upper, half), numberOf<T>(right, half), d[1]);
                d[2] = fmaf(numberOf<T>(lower, half), numberOf<T>(left, half), d[2]);
                d[3] = fmaf(numberOf<T>(lower, half), numberOf<T>(right, half), d[3]);
            }
        }
    }
}

__device__ __forceinline__ int byteProduct(std::uint32_t a, std::uint32_t b, int byte)
{
    return static_cast<std::int8_t>(a >> 8 * byte) * static_cast<std::int8_t>(b >> 8 * byte);
}

__device__ __forceinline__ void mma16832(int (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2])
{
    const int lane = laneOfWarp();
    for (int part = 0; part < 2; ++part) {
        for (int quad = 0; quad < 4; ++quad) { // k = 16 * part + 4 * quad and the next three
            const std::uint32_t upper = __shfl_sync(~0U, a[2 * part], lane / 4 * 4 + quad);
            const std::uint32_t lower = __shfl_sync(~0U, a[2 * part + 1], lane / 4 * 4 + quad);
            const std::uint32_t left = __shfl_sync(~0U, b[part], lane % 4 * 8 + quad);
            const std::uint32_t right = __shfl_sync(~0U, b[part], lane % 4 * 8 + 4 + quad);
            for (int byte = 0; byte < 4; ++byte) {
                d[0] += byteProduct(upper, left, byte);
                d[1] += byteProduct(upper, right, byte);
                d[2] += byteProduct(lower, left, byte);
                d[3] += byteProduct(lower, right, byte);
            }
        }
    }
}

} // namespace ptx::plain
