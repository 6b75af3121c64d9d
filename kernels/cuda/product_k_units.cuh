// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// Units of Q4_K, Q5_K and Q6_K, whose scales are products themselves.

#include "kernels/cuda/product_units.cuh"

namespace kernels::cuda::product {

/// Factor and number of Q4_K and Q5_K are integers whose product a half holds, 2^-9 times as large; scale and minimum
/// follow in one fma, so that besides the minimum nothing but the weight is rounded.
template<bool fifthBit> struct Units<Q45KFormat<fifthBit>> {
    static constexpr int ahead = 2;
    struct Raw {
        uint4 numbers = {};
        uint4 head = {};
        unsigned fifths = 0;
        int index = 0;
    };

    __device__ static Raw load(const std::uint8_t *head, const std::uint8_t *body, int index)
    {
        Raw raw{ptx::loadOnce<uint4>(body + 16 * index), ptx::loadOften(head), 0, index};
        if constexpr (fifthBit)
            raw.fifths = ptx::loadOnce<unsigned>(body + 128 + 4 * index);
        return raw;
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

    /// Each twice, for both numbers of a pair.
    struct Scales {
        unsigned factor;    ///< x 2^-9
        unsigned minus1024; ///< x factor
        unsigned sixteenth; ///< of the factor
        unsigned minus64;   ///< x factor
        unsigned scale;     ///< x 2^9
        unsigned minimum;   ///< negative
    };
    __device__ static Scales scales(const Raw &raw, float factor)
    {
        const unsigned factors = factorsOf(raw.head, raw.index) | 0x64006400U; // 1024 + factor
        const unsigned own = ptx::permuteBytes(ptx::fmaHalves(factors, 0x18001800U, 0xc000c000U), 0, 0x1010U);
        const unsigned minimum = bothOf(halfOf(raw.head.x >> 16) * -factor);
        return {own,
                ptx::multiplyHalves(own, 0xe400e400U),
                ptx::multiplyHalves(own, 0x2c002c00U),
                ptx::multiplyHalves(own, 0xd400d400U),
                bothOf(halfOf(raw.head.x) * factor * 512.0F),
                ptx::permuteBytes(ptx::multiplyHalves(ptx::addHalves(factors, 0xe400e400U), minimum), 0, 0x3232U)};
    }

    __device__ static void expand(const Raw &raw, const Scales &scales, int part, unsigned (&pairs)[4])
    {
        const unsigned word = wordOf(raw.numbers, part);
        for (int i = 0; i < 4; ++i) {
            const unsigned bits = fifthBit ? mantissas<1>(word, raw.fifths, part, i) : mantissas(word, i);
            const unsigned number = i % 2 == 0 ? ptx::fmaHalves(bits, scales.factor, scales.minus1024)
                                               : ptx::fmaHalves(bits, scales.sixteenth, scales.minus64); // exact
            pairs[i] = ptx::fmaHalves(number, scales.scale, scales.minimum);
        }
    }
};

/// Numbers of six bits with a scale for 16, a product that is rounded to half.
template<> struct Units<Q6_KFormat> {
    static constexpr int ahead = 2;
    struct Raw {
        uint4 numbers = {};
        uint2 uppers = {};
        unsigned factors = 0; ///< two signed bytes
        unsigned scale = 0;
    };

    __device__ static Raw load(const std::uint8_t *head, const std::uint8_t *body, int index)
    {
        return {ptx::loadOnce<uint4>(body + 16 * index), ptx::loadOnce<uint2>(body + 128 + 8 * index),
                ptx::loadOnce<std::uint16_t>(head + 2 * index), ptx::loadOnce<std::uint16_t>(head + 16)};
    }

    struct Scales {
        unsigned halves[2]; ///< of 16 numbers each
    };
    __device__ static Scales scales(const Raw &raw, float factor)
    {
        const float scale = halfOf(raw.scale) * factor;
        return {{bothOf(scale * static_cast<float>(static_cast<std::int8_t>(raw.factors))),
                 bothOf(scale * static_cast<float>(static_cast<std::int8_t>(raw.factors >> 8)))}};
    }

    __device__ static void expand(const Raw &raw, const Scales &scales, int part, unsigned (&pairs)[4])
    {
        const unsigned word = wordOf(raw.numbers, part);
        const unsigned uppers = part < 2 ? raw.uppers.x : raw.uppers.y;
        for (int i = 0; i < 4; ++i) {
            const unsigned bits = mantissas<2>(word, uppers, part % 2, i);
            const unsigned number = i % 2 == 0 ? ptx::addHalves(bits, 0xe420e420U)               // - 1024 - 32
                                               : ptx::fmaHalves(bits, 0x2c002c00U, 0xd600d600U); // - 64 - 32
            pairs[i] = ptx::multiplyHalves(number, scales.halves[part / 2]);
        }
    }
};

} // namespace kernels::cuda::product
