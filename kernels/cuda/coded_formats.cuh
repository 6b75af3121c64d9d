// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// MXFP4, and the blocks of quantised safetensors: 32 numbers with a float32 scale (group_blocks.h, float_blocks.h).

#include "kernels/cuda/format_bytes.cuh"
#include "kernels/dequantize_blocks.h"
#include "kernels/float_blocks.h"

namespace kernels::cuda {

/// Body: numbers of E2M1; head: the exponent of the scale.
struct MXFP4Format {
    static constexpr DType type = DType::MXFP4;
    static constexpr BlockPlanes planes = planesOf(type);
    static constexpr Sixteen levels = packedOf(blocks::doubledE2m1);

    __device__ static void expand8(const std::uint8_t *head, const std::uint8_t *body, int first, float (&out)[8])
    {
        const unsigned exponent = head[0];
        // Half of the scale, as the levels are doubled; the two smallest are below the normal numbers.
        const float scale = __uint_as_float(exponent < 2 ? 0x00200000U << exponent : (exponent - 1) << 23);
        const auto word = ptx::load<unsigned>(body + first / 2);
        for (int i = 0; i < 8; ++i)
            out[i] = scale * numberAt(levels.low, levels.high, arrangedNibble(word, i));
    }
};

/// INT2, INT3 and INT4; head: scale, zero, of INT3 the third bits.
template<DType groupType> struct GroupFormat {
    static constexpr DType type = groupType;
    static constexpr BlockPlanes planes = planesOf(type);

    __device__ static void expand8(const std::uint8_t *head, const std::uint8_t *body, int first, float (&out)[8])
    {
        const float scale = floatAt(head);
        const int zero = head[4];
        const auto bytes = ptx::load<uint2>(body + (type == DType::INT4 ? first / 16 * 8 : 0));
        unsigned thirds = 0;
        if constexpr (type == DType::INT3)
            thirds = head[5 + first / 8];
        for (int i = 0; i < 8; ++i) {
            const unsigned number = type == DType::INT4
                ? arrangedNibble(first / 8 % 2 == 0 ? bytes.x : bytes.y, i)
                : (byteOf(bytes, i) >> first / 8 * 2 & 3U) | (thirds >> i & 1U) << 2;
            out[i] = scale * static_cast<float>(static_cast<int>(number) - zero);
        }
    }
};

/// INT8, signed, and INT8Z, unsigned with a 16-bit zero in the head.
template<bool hasZero> struct ByteFormat {
    static constexpr DType type = hasZero ? DType::INT8Z : DType::INT8;
    static constexpr BlockPlanes planes = planesOf(type);

    __device__ static void expand8(const std::uint8_t *head, const std::uint8_t *body, int first, float (&out)[8])
    {
        const float scale = floatAt(head);
        int zero = 0;
        if constexpr (hasZero)
            zero = static_cast<std::int16_t>(static_cast<unsigned>(head[4]) | static_cast<unsigned>(head[5]) << 8);
        const auto bytes = ptx::load<uint2>(body + first);
        for (int i = 0; i < 8; ++i) {
            const auto byte = static_cast<int>(byteOf(bytes, i));
            out[i] = scale * static_cast<float>(hasZero ? byte - zero : static_cast<std::int8_t>(byte));
        }
    }
};

/// Bytes of E4M3 or E5M2.
template<DType floatType> struct FP8Format {
    static constexpr DType type = floatType;
    static constexpr BlockPlanes planes = planesOf(type);

    __device__ static void expand8(const std::uint8_t *head, const std::uint8_t *body, int first, float (&out)[8])
    {
        const float scale = floatAt(head);
        const auto bytes = ptx::load<uint2>(body + first);
        for (int i = 0; i < 8; ++i) {
            const unsigned byte = byteOf(bytes, i);
            const float number = type == DType::FP8
                ? e4m3ToFloat(byte)
                : __half2float(__ushort_as_half(static_cast<unsigned short>(byte << 8)));
            out[i] = number * scale;
        }
    }
};

struct Levels {
    float values[16];
};

constexpr Levels levelsOf(const std::array<float, 16> &numbers)
{
    Levels levels{};
    for (std::size_t i = 0; i < 16; ++i)
        levels.values[i] = numbers[i];
    return levels;
}

static __device__ const Levels nf4OnDevice = levelsOf(nf4Levels);
static __device__ const Levels fp4OnDevice = levelsOf(fp4Levels);

/// Levels of NF4 or FP4, of which some types round the scaled ones.
template<DType levelType> struct LevelFormat {
    static constexpr DType type = levelType;
    static constexpr BlockPlanes planes = planesOf(type);
    static constexpr bool nf4 = type == DType::NF4 || type == DType::NF4_F16 || type == DType::NF4_BF16;

    __device__ static float rounded(float value)
    {
        if constexpr (type == DType::NF4_F16 || type == DType::FP4_F16)
            return __half2float(__float2half_rn(value));
        if constexpr (type == DType::NF4_BF16 || type == DType::FP4_BF16)
            return __bfloat162float(__float2bfloat16_rn(value));
        return value;
    }

    __device__ static void expand8(const std::uint8_t *head, const std::uint8_t *body, int first, float (&out)[8])
    {
        const float scale = floatAt(head);
        const auto bytes = ptx::load<uint2>(body + first % 16);
        const float *levels = nf4 ? nf4OnDevice.values : fp4OnDevice.values;
        for (int i = 0; i < 8; ++i)
            out[i] = rounded(levels[nibbleOf(bytes, i, first)] * scale);
    }
};

} // namespace kernels::cuda
