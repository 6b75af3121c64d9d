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

/// Pairs of a word of arrangedNibbles in the mantissas of halves: 1024 + number where i is even, 1024 + 16 number, four
/// bits higher, where it is odd.
__device__ __forceinline__ unsigned mantissas(unsigned word, int i)
{
    const unsigned shifted = i < 2 ? word : word >> 8;
    return i % 2 == 0 ? ptx::maskedOr(shifted, 0x000f000fU, 0x64006400U)
                      : ptx::maskedOr(shifted, 0x00f000f0U, 0x64006400U);
}

/// The same with `bits` more above the nibbles: those of eight `at` in `uppers` (arrangedUppers).
template<int bits> __device__ __forceinline__ unsigned mantissas(unsigned word, unsigned uppers, int at, int i)
{
    constexpr unsigned mask = bits == 1 ? 0x00100010U : 0x00300030U;
    const int place = i % 2 == 0 ? 4 : 8;
    const int from = (at * 4 + i) * bits;
    const unsigned shifted = from < place ? uppers << (place - from) : uppers >> (from - place);
    return ptx::maskedOr(shifted, i % 2 == 0 ? mask : mask << 4, mantissas(word, i));
}

/// Pairs of a word, each number less `zero`, exact; the constants are - 1024 - zero and - 64 - zero.
__device__ __forceinline__ void nibblePairs(unsigned word, unsigned minus1024, unsigned minus64, unsigned (&pairs)[4])
{
    for (int i = 0; i < 4; ++i)
        pairs[i] = i % 2 == 0 ? ptx::addHalves(mantissas(word, i), minus1024)
                              : ptx::fmaHalves(mantissas(word, i), 0x2c002c00U, minus64);
}

/// For both numbers of a pair.
struct ScaleAndMinimum {
    unsigned scale;
    unsigned minimum;
};

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
        nibblePairs(wordOf(raw.numbers, part), 0xe400e400U, 0xd400d400U, pairs); // - 1024, - 64
        for (unsigned &pair : pairs)
            pair = ptx::fmaHalves(pair, scales.scale, scales.minimum);
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
