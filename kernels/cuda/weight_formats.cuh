// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// How weights lie on the device: the blocks of a file, split into a plane of heads (scales) and a plane of bodies
/// (numbers), so that bodies are 16-byte aligned. expand8 gives eight neighbouring numbers of a block, rounded as
/// `dequantize` rounds them. Source of the blocks: the GGUF specification.

#include "kernels/cuda/device.cuh"

namespace kernels::cuda {

/// Byte i of eight.
__device__ __forceinline__ unsigned byteOf(const uint2 &bytes, int i)
{
    return (i < 4 ? bytes.x : bytes.y) >> 8 * (i % 4) & 0xffU;
}

__device__ __forceinline__ float halfAt(const std::uint8_t *bytes, int index)
{
    const auto low = static_cast<unsigned>(bytes[2 * index]);
    const auto high = static_cast<unsigned>(bytes[2 * index + 1]);
    return __half2float(__ushort_as_half(static_cast<unsigned short>(low | high << 8)));
}

/// Floats of 2 or 4 bytes in "blocks" of 32.
template<DType type> struct FloatFormat {
    static constexpr int elements = 32;
    static constexpr int headBytes = 0;
    static constexpr int bodyBytes = type == DType::F32 ? 128 : 64;

    __device__ static void expand8(const std::uint8_t *, const std::uint8_t *body, int first, float (&out)[8])
    {
        if constexpr (type == DType::F32) {
            for (int i = 0; i < 8; ++i)
                out[i] = reinterpret_cast<const float *>(body)[first + i];
        } else {
            const auto bits = ptx::load<uint4>(body + 2 * first);
            const unsigned words[4] = {bits.x, bits.y, bits.z, bits.w};
            for (int i = 0; i < 8; ++i) {
                const unsigned number = words[i / 2] >> 16 * (i % 2) & 0xffffU;
                out[i] = type == DType::F16 ? __half2float(__ushort_as_half(static_cast<unsigned short>(number)))
                                            : __uint_as_float(number << 16);
            }
        }
    }
};

struct Q4_0Format {
    static constexpr int elements = 32;
    static constexpr int headBytes = 2;
    static constexpr int bodyBytes = 16;

    __device__ static void expand8(const std::uint8_t *head, const std::uint8_t *body, int first, float (&out)[8])
    {
        const float scale = halfAt(head, 0);
        const auto bytes = ptx::load<uint2>(body + first % 16);
        for (int i = 0; i < 8; ++i)
            out[i] = scale * static_cast<float>(static_cast<int>(byteOf(bytes, i) >> first / 16 * 4 & 0xfU) - 8);
    }
};

struct Q4_1Format {
    static constexpr int elements = 32;
    static constexpr int headBytes = 4;
    static constexpr int bodyBytes = 16;

    __device__ static void expand8(const std::uint8_t *head, const std::uint8_t *body, int first, float (&out)[8])
    {
        const float scale = halfAt(head, 0);
        const float minimum = halfAt(head, 1);
        const auto bytes = ptx::load<uint2>(body + first % 16);
        for (int i = 0; i < 8; ++i)
            out[i] = scale * static_cast<float>(byteOf(bytes, i) >> first / 16 * 4 & 0xfU) + minimum;
    }
};

struct Q8_0Format {
    static constexpr int elements = 32;
    static constexpr int headBytes = 2;
    static constexpr int bodyBytes = 32;

    __device__ static void expand8(const std::uint8_t *head, const std::uint8_t *body, int first, float (&out)[8])
    {
        const float scale = halfAt(head, 0);
        const auto bytes = ptx::load<uint2>(body + first);
        for (int i = 0; i < 8; ++i)
            out[i] = scale * static_cast<float>(static_cast<std::int8_t>(byteOf(bytes, i)));
    }
};

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
    static constexpr int elements = 256;
    static constexpr int headBytes = 16;
    static constexpr int bodyBytes = fifthBit ? 160 : 128;

    __device__ static void expand8(const std::uint8_t *head, const std::uint8_t *body, int first, float (&out)[8])
    {
        const int block = first / 32;
        const uint2 factors = factorsOf(head + 4, block);
        const float scale = halfAt(head, 0) * static_cast<float>(factors.x);
        const float minimum = halfAt(head, 1) * static_cast<float>(factors.y);
        const auto nibbles = ptx::load<uint2>(body + (fifthBit ? 32 : 0) + first / 64 * 32 + first % 32);
        uint2 bits = make_uint2(0, 0);
        if constexpr (fifthBit)
            bits = ptx::load<uint2>(body + first % 32);
        for (int i = 0; i < 8; ++i) {
            const unsigned number = (byteOf(nibbles, i) >> block % 2 * 4 & 0xfU) | (byteOf(bits, i) >> block & 1U) << 4;
            out[i] = scale * static_cast<float>(number) - minimum;
        }
    }
};

/// Body: 128 bytes of low nibbles, 64 of upper bit pairs; head: 16 signed factors, the scale.
struct Q6_KFormat {
    static constexpr int elements = 256;
    static constexpr int headBytes = 18;
    static constexpr int bodyBytes = 192;

    __device__ static void expand8(const std::uint8_t *head, const std::uint8_t *body, int first, float (&out)[8])
    {
        const int half = first / 128;
        const int quarter = first % 128 / 32;
        const int at = first % 32;
        const float scale = halfAt(head, 8) * static_cast<float>(static_cast<std::int8_t>(head[first / 16]));
        const auto low = ptx::load<uint2>(body + half * 64 + quarter % 2 * 32 + at);
        const auto high = ptx::load<uint2>(body + 128 + half * 32 + at);
        for (int i = 0; i < 8; ++i) {
            const unsigned number =
                (byteOf(low, i) >> quarter / 2 * 4 & 0xfU) | (byteOf(high, i) >> 2 * quarter & 3U) << 4;
            out[i] = scale * static_cast<float>(static_cast<int>(number) - 32);
        }
    }
};

/// Eight numbers of row `row` from column `column`, a multiple of 8.
template<typename Format>
__device__ __forceinline__ void expandAt(const WeightView &weight, int row, int column, float (&out)[8])
{
    const auto block = static_cast<std::int64_t>(row) * (weight.columns / Format::elements) + column / Format::elements;
    Format::expand8(reinterpret_cast<const std::uint8_t *>(weight.head) + block * Format::headBytes,
                    reinterpret_cast<const std::uint8_t *>(weight.body) + block * Format::bodyBytes,
                    column % Format::elements, out);
}

/// Calls use.operator()<Format>() for the format of a type that isMatrixType().
template<typename Use> void withFormat(DType type, Use use)
{
    switch (type) {
    case DType::F16:
        return use.template operator()<FloatFormat<DType::F16>>();
    case DType::BF16:
        return use.template operator()<FloatFormat<DType::BF16>>();
    case DType::Q4_0:
        return use.template operator()<Q4_0Format>();
    case DType::Q4_1:
        return use.template operator()<Q4_1Format>();
    case DType::Q8_0:
        return use.template operator()<Q8_0Format>();
    case DType::Q4_K:
        return use.template operator()<Q45KFormat<false>>();
    case DType::Q5_K:
        return use.template operator()<Q45KFormat<true>>();
    case DType::Q6_K:
        return use.template operator()<Q6_KFormat>();
    default:
        return use.template operator()<FloatFormat<DType::F32>>();
    }
}

} // namespace kernels::cuda
