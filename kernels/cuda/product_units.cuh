// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// Weights as operands of the tensor cores. A *unit* is 32 neighbouring numbers of a row: one thread loads it and
/// expands it, eight numbers at a time, into pairs of halves (bfloat16 for BF16 weights), times the weight's factor.
/// Both kernels of products take their numbers from here, so both multiply the same bits.

#include "kernels/cuda/weight_formats.cuh"

namespace kernels::cuda::product {

constexpr int unitColumns = 32;

template<typename Format>
using Number = std::conditional_t<std::is_same_v<Format, FloatFormat<DType::BF16>>, __nv_bfloat16, __half>;

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

/// The factor of a unit for both numbers of a pair.
__device__ __forceinline__ unsigned bothOf(float value)
{
    return pairOf<__half>(value, value);
}

__device__ __forceinline__ float halfOf(unsigned bits)
{
    return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}

/// What a unit is in registers between its load, some turns ahead of its use, and its expansion, and its scales, made
/// once for all of its numbers. This is the way for any format: the block is read when it is expanded, in float.
template<typename Format> struct Units {
    static constexpr int ahead = 1;
    struct Raw {
        const std::uint8_t *head = nullptr;
        const std::uint8_t *body = nullptr;
        int first = 0;
    };

    __device__ static Raw load(const std::uint8_t *head, const std::uint8_t *body, int index)
    {
        return {head, body, index * unitColumns};
    }

    using Scales = float;
    __device__ static Scales scales(const Raw &, float factor) { return factor; }

    __device__ static void expand(const Raw &raw, float factor, int part, unsigned (&pairs)[4])
    {
        float numbers[8];
        Format::expand8(raw.head, raw.body, raw.first + 8 * part, numbers);
        for (int i = 0; i < 4; ++i)
            pairs[i] = pairOf<__half>(numbers[2 * i] * factor, numbers[2 * i + 1] * factor);
    }
};

template<DType floatType> struct Units<FloatFormat<floatType>> {
    static constexpr int ahead = 1;
    struct Raw {
        uint4 words[4] = {};
    };

    __device__ static Raw load(const std::uint8_t *, const std::uint8_t *body, int)
    {
        Raw raw;
        for (int i = 0; i < 4; ++i)
            raw.words[i] = ptx::loadOnce<uint4>(body + 16 * i);
        return raw;
    }

    using Scales = float;
    __device__ static Scales scales(const Raw &, float factor) { return factor; }

    /// BF16 weights have no factor.
    __device__ static void expand(const Raw &raw, float factor, int part, unsigned (&pairs)[4])
    {
        for (int i = 0; i < 4; ++i) {
            pairs[i] = wordOf(raw.words[part], i);
            if constexpr (floatType == DType::F16)
                pairs[i] = pairOf<__half>(halfOf(pairs[i]) * factor, halfOf(pairs[i] >> 16) * factor);
        }
    }
};

/// Pairs of a word of arrangedNibbles, each number less `zero`, exact. A number below the mantissa of 1024 makes 1024 +
/// number, four bits higher 1024 + 16 number.
__device__ __forceinline__ void nibblePairs(unsigned word, unsigned minus1024, unsigned minus64, unsigned (&pairs)[4])
{
    for (int i = 0; i < 4; ++i) {
        const unsigned shifted = i < 2 ? word : word >> 8;
        pairs[i] = i % 2 == 0 ? ptx::addHalves(ptx::maskedOr(shifted, 0x000f000fU, 0x64006400U), minus1024)
                              : ptx::fmaHalves(ptx::maskedOr(shifted, 0x00f000f0U, 0x64006400U), 0x2c002c00U, minus64);
    }
}

/// For both numbers of a pair.
struct ScaleAndMinimum {
    unsigned scale;
    unsigned minimum;
};

/// number x scale + minimum, rounded once.
__device__ __forceinline__ void scaledNibbles(unsigned word, const ScaleAndMinimum &scales, unsigned (&pairs)[4])
{
    nibblePairs(word, 0xe400e400U, 0xd400d400U, pairs); // - 1024, - 64
    for (unsigned &pair : pairs)
        pair = ptx::fmaHalves(pair, scales.scale, scales.minimum);
}

template<> struct Units<Q4_0Format> {
    static constexpr int ahead = 2;
    struct Raw {
        uint4 numbers = {};
        unsigned scale = 0;
    };

    __device__ static Raw load(const std::uint8_t *head, const std::uint8_t *body, int)
    {
        return {ptx::loadOnce<uint4>(body), ptx::loadOnce<std::uint16_t>(head)};
    }

    using Scales = unsigned;
    __device__ static Scales scales(const Raw &raw, float factor) { return bothOf(halfOf(raw.scale) * factor); }

    __device__ static void expand(const Raw &raw, Scales scale, int part, unsigned (&pairs)[4])
    {
        nibblePairs(wordOf(raw.numbers, part), 0xe408e408U, 0xd480d480U, pairs); // - 1024 - 8, - 64 - 8
        for (unsigned &pair : pairs)
            pair = ptx::multiplyHalves(pair, scale);
    }
};

template<> struct Units<Q4_1Format> {
    static constexpr int ahead = 2;
    struct Raw {
        uint4 numbers = {};
        unsigned factors = 0; ///< scale, minimum
    };

    __device__ static Raw load(const std::uint8_t *head, const std::uint8_t *body, int)
    {
        return {ptx::loadOnce<uint4>(body), ptx::loadOnce<unsigned>(head)};
    }

    using Scales = ScaleAndMinimum;
    __device__ static Scales scales(const Raw &raw, float factor)
    {
        return {bothOf(halfOf(raw.factors) * factor), bothOf(halfOf(raw.factors >> 16) * factor)};
    }

    __device__ static void expand(const Raw &raw, const Scales &scales, int part, unsigned (&pairs)[4])
    {
        scaledNibbles(wordOf(raw.numbers, part), scales, pairs);
    }
};

template<> struct Units<Q8_0Format> {
    static constexpr int ahead = 2;
    struct Raw {
        uint4 numbers[2] = {};
        unsigned scale = 0;
    };

    __device__ static Raw load(const std::uint8_t *head, const std::uint8_t *body, int)
    {
        return {{ptx::loadOnce<uint4>(body), ptx::loadOnce<uint4>(body + 16)}, ptx::loadOnce<std::uint16_t>(head)};
    }

    using Scales = unsigned;
    __device__ static Scales scales(const Raw &raw, float factor) { return bothOf(halfOf(raw.scale) * factor); }

    __device__ static void expand(const Raw &raw, Scales scale, int part, unsigned (&pairs)[4])
    {
        for (int i = 0; i < 4; ++i) {
            const unsigned word = wordOf(raw.numbers[part / 2], part % 2 * 2 + i / 2) ^ 0x80808080U; // number + 128
            const unsigned pair = ptx::permuteBytes(word, 0x64646464U, i % 2 == 0 ? 0x4140U : 0x4342U);
            pairs[i] = ptx::multiplyHalves(ptx::addHalves(pair, 0xe480e480U), scale); // - 1024 - 128
        }
    }
};

/// Scale and minimum of a sub-block are products, rounded to half.
template<> struct Units<Q45KFormat<false>> {
    static constexpr int ahead = 2;
    struct Raw {
        uint4 numbers = {};
        uint4 head = {};
        int index = 0;
    };

    __device__ static Raw load(const std::uint8_t *head, const std::uint8_t *body, int index)
    {
        return {ptx::loadOnce<uint4>(body + 16 * index), ptx::loadOften(head), index};
    }

    /// The sub-block's factors, six bits each, as the halves of a word.
    __device__ static unsigned factorsOf(const uint4 &head, int index)
    {
        const int shift = index % 4 * 8;
        const unsigned scales = head.y >> shift;
        const unsigned minimums = head.z >> shift;
        const unsigned both = head.w >> shift;
        const unsigned first = (scales & 63U) | (minimums & 63U) << 16;
        const unsigned second =
            (both & 0xfU) | (scales >> 2 & 0x30U) | (both << 12 & 0xf0000U) | (minimums << 14 & 0x300000U);
        return index < 4 ? first : second;
    }

    using Scales = ScaleAndMinimum;
    __device__ static Scales scales(const Raw &raw, float factor)
    {
        const unsigned factors = ptx::addHalves(factorsOf(raw.head, raw.index) | 0x64006400U, 0xe400e400U); // - 1024
        const unsigned both = pairOf<__half>(halfOf(raw.head.x) * factor, halfOf(raw.head.x >> 16) * -factor);
        const unsigned scaled = ptx::multiplyHalves(factors, both);
        return {ptx::permuteBytes(scaled, 0, 0x1010U), ptx::permuteBytes(scaled, 0, 0x3232U)};
    }

    __device__ static void expand(const Raw &raw, const Scales &scales, int part, unsigned (&pairs)[4])
    {
        scaledNibbles(wordOf(raw.numbers, part), scales, pairs);
    }
};

template<> struct Units<GroupFormat<DType::INT4>> {
    static constexpr int ahead = 2;
    struct Raw {
        uint4 numbers = {};
        float scale = 0.0F;
        unsigned zero = 0;
    };

    __device__ static Raw load(const std::uint8_t *head, const std::uint8_t *body, int)
    {
        return {ptx::loadOnce<uint4>(body), floatAt(head), head[4]};
    }

    using Scales = unsigned;
    __device__ static Scales scales(const Raw &raw, float factor) { return bothOf(raw.scale * factor); }

    __device__ static void expand(const Raw &raw, Scales scale, int part, unsigned (&pairs)[4])
    {
        const unsigned minus1024 = (0xe400U | raw.zero) * 0x10001U;
        const unsigned minus64 = ptx::addHalves(minus1024, 0x63806380U); // + 960, exact
        nibblePairs(wordOf(raw.numbers, part), minus1024, minus64, pairs);
        for (unsigned &pair : pairs)
            pair = ptx::multiplyHalves(pair, scale);
    }
};

/// A number of E2M1 is a half of the same fields, 2^14 times as small.
template<> struct Units<MXFP4Format> {
    static constexpr int ahead = 2;
    struct Raw {
        uint4 numbers = {};
        unsigned exponent = 0;
    };

    __device__ static Raw load(const std::uint8_t *head, const std::uint8_t *body, int)
    {
        return {ptx::loadOnce<uint4>(body), head[0]};
    }

    using Scales = unsigned;
    __device__ static Scales scales(const Raw &raw, float factor)
    {
        // Half of the scale; the two smallest are below the normal numbers. Blocks of zeros have any.
        const float size = __uint_as_float(raw.exponent < 2 ? 0x00200000U << raw.exponent : (raw.exponent - 1) << 23);
        return bothOf(fminf(size * factor, 65504.0F));
    }

    __device__ static void expand(const Raw &raw, Scales scale, int part, unsigned (&pairs)[4])
    {
        const unsigned word = wordOf(raw.numbers, part);
        for (int i = 0; i < 4; ++i) {
            const unsigned pair = word >> 4 * i;
            const unsigned number = (pair << 9 & 0x0e000e00U) | (pair << 12 & 0x80008000U);
            pairs[i] = ptx::multiplyHalves(ptx::multiplyHalves(number, 0x78007800U), scale); // x 2^15
        }
    }
};

} // namespace kernels::cuda::product
