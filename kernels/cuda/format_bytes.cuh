// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// What the formats of weights read their blocks with. Of a format: the type, its planes (block_planes.h), and expand8,
/// which gives eight neighbouring numbers of a block, from `first`, a multiple of 8, rounded as `dequantize` rounds
/// them. Heads have no alignment, bodies that of their size, up to 16 bytes.

#include "kernels/cuda/block_planes.h"
#include "kernels/cuda/device.cuh"

#include <array>

namespace kernels::cuda {

/// Byte i of eight.
__device__ __forceinline__ unsigned byteOf(const uint2 &bytes, int i)
{
    return (i < 4 ? bytes.x : bytes.y) >> 8 * (i % 4) & 0xffU;
}

/// Word i of four.
__device__ __forceinline__ unsigned wordOf(const uint4 &words, int i)
{
    return i < 2 ? (i == 0 ? words.x : words.y) : (i == 2 ? words.z : words.w);
}

__device__ __forceinline__ float halfAt(const std::uint8_t *bytes, int index)
{
    const auto low = static_cast<unsigned>(bytes[2 * index]);
    const auto high = static_cast<unsigned>(bytes[2 * index + 1]);
    return __half2float(__ushort_as_half(static_cast<unsigned short>(low | high << 8)));
}

__device__ __forceinline__ float floatAt(const std::uint8_t *bytes)
{
    return __uint_as_float(static_cast<unsigned>(bytes[0]) | static_cast<unsigned>(bytes[1]) << 8
                           | static_cast<unsigned>(bytes[2]) << 16 | static_cast<unsigned>(bytes[3]) << 24);
}

/// Number i of eight in a word of arrangedNibbles.
__device__ __forceinline__ unsigned arrangedNibble(unsigned word, int i)
{
    return word >> (i % 2 * 16 + i / 2 * 4) & 0xfU;
}

/// Four bits of each of the bytes that hold numbers [first % 16, ..) below and [16 + first % 16, ..) above.
__device__ __forceinline__ unsigned nibbleOf(const uint2 &bytes, int i, int first)
{
    return byteOf(bytes, i) >> first / 16 * 4 & 0xfU;
}

/// Sixteen small numbers in two words, so that a look-up reads no memory.
struct Sixteen {
    std::uint64_t low;
    std::uint64_t high;
};

constexpr Sixteen packedOf(const std::array<std::int8_t, 16> &numbers)
{
    Sixteen packed{0, 0};
    for (std::size_t i = 0; i < 8; ++i) {
        packed.low |= static_cast<std::uint64_t>(static_cast<std::uint8_t>(numbers[i])) << 8 * i;
        packed.high |= static_cast<std::uint64_t>(static_cast<std::uint8_t>(numbers[i + 8])) << 8 * i;
    }
    return packed;
}

__device__ __forceinline__ float numberAt(std::uint64_t low, std::uint64_t high, unsigned index)
{
    return static_cast<float>(static_cast<std::int8_t>((index < 8 ? low : high) >> 8 * (index % 8)));
}

} // namespace kernels::cuda
