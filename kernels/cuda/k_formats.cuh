// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// Weights in blocks of 256 with factors for parts of them, and the two types with a codebook of 16 numbers.
/// Source of the blocks: the GGUF specification.

#include "kernels/cuda/format_bytes.cuh"
#include "kernels/dequantize_blocks.h"

namespace kernels::cuda {

/// Scale and minimum of sub-block `index` (32 numbers) of Q4_K and Q5_K, from 12 bytes of 6-bit numbers.
__device__ __forceinline__ uint2 factorsOf(const std::uint8_t *packed, int index)
{
    if (index < 4)
        return make_uint2(packed[index] & 63U, packed[index + 4] & 63U);
    return make_uint2((packed[index + 4] & 0xfU) | packed[index - 4] >> 6 << 4,
                      static_cast<unsigned>(packed[index + 4]) >> 4 | packed[index] >> 6 << 4);
}

/// Q4_K, and with a fifth bit Q5_K; head: scale, scale of minimums, 12 bytes of factors.
template<bool fifthBit> struct Q45KFormat {
    static constexpr DType type = fifthBit ? DType::Q5_K : DType::Q4_K;
    static constexpr BlockPlanes planes = planesOf(type);

    __device__ static void expand8(const std::uint8_t *head, const std::uint8_t *body, int first, float (&out)[8])
    {
        const int block = first / 32;
        const uint2 factors = factorsOf(head + 4, block);
        const float scale = halfAt(head, 0) * static_cast<float>(factors.x);
        const float minimum = halfAt(head, 1) * static_cast<float>(factors.y);
        const auto word = ptx::load<unsigned>(body + first / 2);
        const unsigned fifths = fifthBit ? ptx::load<unsigned>(body + 128 + 4 * block) >> first % 32 / 8 * 4 : 0;
        for (int i = 0; i < 8; ++i) {
            const unsigned number = arrangedNibble(word, i) | (fifths >> (i % 2 * 16 + i / 2) & 1U) << 4;
            out[i] = scale * static_cast<float>(number) - minimum;
        }
    }
};

/// Body: 128 bytes of low nibbles, 64 of upper bit pairs; head: 16 signed factors, the scale.
struct Q6_KFormat {
    static constexpr DType type = DType::Q6_K;
    static constexpr BlockPlanes planes = planesOf(type);

    __device__ static void expand8(const std::uint8_t *head, const std::uint8_t *body, int first, float (&out)[8])
    {
        const float scale = halfAt(head, 8) * static_cast<float>(static_cast<std::int8_t>(head[first / 16]));
        const auto word = ptx::load<unsigned>(body + first / 2);
        const unsigned uppers = ptx::load<unsigned>(body + 128 + first / 16 * 4) >> first % 16;
        for (int i = 0; i < 8; ++i) {
            const unsigned number = arrangedNibble(word, i) | (uppers >> (i % 2 * 16 + i / 2 * 2) & 3U) << 4;
            out[i] = scale * static_cast<float>(static_cast<int>(number) - 32);
        }
    }
};

/// Sixteen numbers of two bits lie apart: where eight from `first` stand in their plane, and by how many bits up.
__device__ __forceinline__ int crumbPlace(int first)
{
    return first / 128 * 32 + first % 32;
}

__device__ __forceinline__ int crumbShift(int first)
{
    return first % 128 / 32 * 2;
}

/// Body: 64 bytes of bit pairs; head: 16 pairs of a factor and a minimum, scale, scale of minimums.
struct Q2_KFormat {
    static constexpr DType type = DType::Q2_K;
    static constexpr BlockPlanes planes = planesOf(type);

    __device__ static void expand8(const std::uint8_t *head, const std::uint8_t *body, int first, float (&out)[8])
    {
        const unsigned factors = head[first / 16];
        const float scale = halfAt(head, 8) * static_cast<float>(factors & 0xfU);
        const float minimum = halfAt(head, 9) * static_cast<float>(factors >> 4);
        const auto bytes = ptx::load<uint2>(body + crumbPlace(first));
        for (int i = 0; i < 8; ++i)
            out[i] = scale * static_cast<float>(byteOf(bytes, i) >> crumbShift(first) & 3U) - minimum;
    }
};

/// Signed factor of sub-block `index` (16 numbers) of Q3_K, from 12 bytes of 6-bit numbers.
__device__ __forceinline__ int thirdFactorOf(const std::uint8_t *packed, int index)
{
    const unsigned low = static_cast<unsigned>(packed[index % 8]) >> index / 8 * 4 & 0xfU;
    const unsigned high = static_cast<unsigned>(packed[8 + index % 4]) >> index / 4 * 2 & 3U;
    return static_cast<int>(low | high << 4) - 32;
}

/// Body: 32 bytes of third bits, 64 of bit pairs; head: 12 bytes of factors, the scale.
struct Q3_KFormat {
    static constexpr DType type = DType::Q3_K;
    static constexpr BlockPlanes planes = planesOf(type);

    __device__ static void expand8(const std::uint8_t *head, const std::uint8_t *body, int first, float (&out)[8])
    {
        const float scale = halfAt(head, 6) * static_cast<float>(thirdFactorOf(head, first / 16));
        const auto bits = ptx::load<uint2>(body + first % 32);
        const auto bytes = ptx::load<uint2>(body + 32 + crumbPlace(first));
        for (int i = 0; i < 8; ++i) {
            const unsigned third = byteOf(bits, i) >> first / 32 & 1U;
            const unsigned number = (byteOf(bytes, i) >> crumbShift(first) & 3U) | third << 2;
            out[i] = scale * static_cast<float>(static_cast<int>(number) - 4);
        }
    }
};

/// IQ4_NL, a scale for 32 numbers, and IQ4_XS, where head is a scale and 6-bit factors for eight times 32.
template<bool hasFactors> struct IQ4Format {
    static constexpr DType type = hasFactors ? DType::IQ4_XS : DType::IQ4_NL;
    static constexpr BlockPlanes planes = planesOf(type);
    static constexpr Sixteen levels = packedOf(blocks::iq4Values);

    __device__ static void expand8(const std::uint8_t *head, const std::uint8_t *body, int first, float (&out)[8])
    {
        const int block = first / 32;
        float scale = halfAt(head, 0);
        if constexpr (hasFactors) {
            const unsigned low = static_cast<unsigned>(head[4 + block / 2]) >> block % 2 * 4 & 0xfU;
            const unsigned high = static_cast<unsigned>(head[2 + block / 4]) >> block % 4 * 2 & 3U;
            scale *= static_cast<float>(static_cast<int>(low | high << 4) - 32);
        }
        const auto bytes = ptx::load<uint2>(body + block * 16 + first % 16);
        for (int i = 0; i < 8; ++i)
            out[i] = scale * numberAt(levels.low, levels.high, nibbleOf(bytes, i, first % 32));
    }
};

} // namespace kernels::cuda
