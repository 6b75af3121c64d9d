// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/dtype.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

/// How blocks of a file are split for the device: the numbers of all blocks into one plane, so that they are aligned,
/// and what is left of them, scales and the like, into another.
namespace kernels::cuda {

/// How a body's numbers stand.
enum class BodyOrder {
    File,    ///< as in the block of the file
    Nibbles, ///< ascending, eight in a word (arrangedNibbles); in the file 32 of them, the second half above the first
    Nibbles64, ///< the same, in the file 64 of them
    Q5_K,      ///< Nibbles64 in 128 bytes, then the fifth bits: a word for 32 numbers (arrangedUppers)
    Q6_K,      ///< nibbles in 128 bytes, then the upper pairs of bits: two words for 32 numbers (arrangedUppers)
};

/// Of one block. Bytes [bodyOffset, bodyOffset + bodyBytes) of the file's block are its body, all others, in their
/// order, its head. Bodies are multiples of 8 bytes.
struct BlockPlanes {
    int elements = 0;
    int headBytes = 0;
    int bodyBytes = 0;
    int bodyOffset = 0;
    BodyOrder order = BodyOrder::File;
};

/// Plain floats are "blocks" of 32. Zeros for a type that the device does not compute with.
[[nodiscard]] constexpr BlockPlanes planesOf(DType type)
{
    switch (type) {
    case DType::F32:
        return {32, 0, 128, 0};
    case DType::F16:
    case DType::BF16:
        return {32, 0, 64, 0};
    case DType::Q4_0:
        return {32, 2, 16, 2, BodyOrder::Nibbles};
    case DType::IQ4_NL:
        return {32, 2, 16, 2};
    case DType::Q4_1:
        return {32, 4, 16, 4, BodyOrder::Nibbles};
    case DType::Q5_0:
        return {32, 6, 16, 6};
    case DType::Q5_1:
        return {32, 8, 16, 8};
    case DType::Q8_0:
        return {32, 2, 32, 2};
    case DType::Q2_K:
        return {256, 20, 64, 16};
    case DType::Q3_K:
        return {256, 14, 96, 0};
    case DType::Q4_K:
        return {256, 16, 128, 16, BodyOrder::Nibbles64};
    case DType::Q5_K:
        return {256, 16, 160, 16, BodyOrder::Q5_K};
    case DType::Q6_K:
        return {256, 18, 192, 0, BodyOrder::Q6_K};
    case DType::IQ4_XS:
        return {256, 8, 128, 8};
    case DType::MXFP4:
        return {32, 1, 16, 1, BodyOrder::Nibbles};
    case DType::INT2:
        return {32, 5, 8, 5};
    case DType::INT3:
        return {32, 9, 8, 5};
    case DType::INT4:
        return {32, 5, 16, 5, BodyOrder::Nibbles};
    case DType::INT8:
    case DType::W8A8:
    case DType::FP8:
    case DType::FP8_E5M2:
        return {32, 4, 32, 4};
    case DType::INT8Z:
        return {32, 6, 32, 6};
    case DType::NF4:
    case DType::NF4_F16:
    case DType::NF4_BF16:
    case DType::FP4:
    case DType::FP4_F16:
    case DType::FP4_BF16:
        return {32, 4, 16, 4};
    default:
        return {};
    }
}

/// Eight numbers, the low four bits of each byte, in a word: number i at bit i % 2 * 16 + i / 2 * 4, so that one mask
/// leaves two neighbours in the two halves of a word.
[[nodiscard]] constexpr std::uint32_t arrangedNibbles(std::uint64_t bytes)
{
    std::uint32_t word = 0;
    for (int odd = 0; odd < 2; ++odd) {
        const std::uint64_t four = bytes >> 8 * odd & 0x000f000f000f000fU;
        word |= static_cast<std::uint32_t>((four | four >> 12 | four >> 24 | four >> 36) & 0xffffU) << 16 * odd;
    }
    return word;
}

/// The upper bits of numbers whose nibbles stand in words: with `bits` bits each, those of number i of eight at bit
/// i % 2 * 16 + i / 2 * bits, eights one after the other. One shift brings two neighbours above their nibbles.
/// \param numbers 32 / bits of them, in the low bits of bytes
[[nodiscard]] constexpr std::uint32_t arrangedUppers(const std::uint8_t *numbers, int bits)
{
    std::uint32_t word = 0;
    for (int i = 0; i < 32 / bits; ++i)
        word |= static_cast<std::uint32_t>(numbers[i] & ((1U << bits) - 1U)) << (i % 2 * 16 + i / 2 * bits);
    return word;
}

/// Chunks of 16, 32 or 64 bytes, whose upper nibbles follow their lower ones.
inline void arrangeNibbles(std::byte *body, std::size_t bytes, std::size_t chunk)
{
    for (const std::byte *end = body + bytes; body != end; body += chunk) {
        std::byte arranged[64];
        for (std::size_t i = 0; i < chunk; i += 8) {
            std::uint64_t eight = 0;
            std::memcpy(&eight, body + i, sizeof eight);
            const std::uint32_t low = arrangedNibbles(eight);
            const std::uint32_t high = arrangedNibbles(eight >> 4);
            std::memcpy(arranged + i / 2, &low, sizeof low);
            std::memcpy(arranged + chunk / 2 + i / 2, &high, sizeof high);
        }
        std::memcpy(body, arranged, chunk);
    }
}

/// In the file bit b of byte j is the fifth bit of number 32 b + j.
inline void arrangeQ5_K(std::byte *body)
{
    std::byte fifths[32];
    std::memcpy(fifths, body, sizeof fifths);
    std::memmove(body, body + 32, 128);
    arrangeNibbles(body, 128, 32);
    for (int unit = 0; unit < 8; ++unit) {
        std::uint8_t numbers[32];
        for (int i = 0; i < 32; ++i)
            numbers[i] = static_cast<std::uint8_t>(std::to_integer<unsigned>(fifths[i]) >> unit);
        const std::uint32_t word = arrangedUppers(numbers, 1);
        std::memcpy(body + 128 + 4 * unit, &word, sizeof word);
    }
}

/// In the file halves of 128 numbers: 64 bytes have those of the first two units below and of the last two above, 32
/// bytes the upper bits of all four.
inline void arrangeQ6_K(std::byte *body)
{
    arrangeNibbles(body, 128, 64);
    std::byte uppers[64];
    std::memcpy(uppers, body + 128, sizeof uppers);
    for (int unit = 0; unit < 8; ++unit) {
        std::uint8_t numbers[32];
        for (int i = 0; i < 32; ++i)
            numbers[i] =
                static_cast<std::uint8_t>(std::to_integer<unsigned>(uppers[unit / 4 * 32 + i]) >> unit % 4 * 2);
        for (int half = 0; half < 2; ++half) {
            const std::uint32_t word = arrangedUppers(numbers + 16 * half, 2);
            std::memcpy(body + 128 + 8 * unit + 4 * half, &word, sizeof word);
        }
    }
}

/// Brings a body from the order of the file into that of the device.
inline void arrangeBody(const BlockPlanes &planes, std::byte *body)
{
    switch (planes.order) {
    case BodyOrder::File:
        return;
    case BodyOrder::Nibbles:
        return arrangeNibbles(body, static_cast<std::size_t>(planes.bodyBytes), 16);
    case BodyOrder::Nibbles64:
        return arrangeNibbles(body, static_cast<std::size_t>(planes.bodyBytes), 32);
    case BodyOrder::Q5_K:
        return arrangeQ5_K(body);
    case BodyOrder::Q6_K:
        return arrangeQ6_K(body);
    }
}

/// Writes head and body of one block of the file.
inline void splitBlock(const BlockPlanes &planes, const std::byte *block, std::byte *head, std::byte *body)
{
    const auto before = static_cast<std::size_t>(planes.bodyOffset);
    const auto numbers = static_cast<std::size_t>(planes.bodyBytes);
    const auto after = static_cast<std::size_t>(planes.headBytes - planes.bodyOffset);
    std::memcpy(body, block + before, numbers);
    arrangeBody(planes, body);
    if (before > 0)
        std::memcpy(head, block, before);
    if (after > 0)
        std::memcpy(head + before, block + before + numbers, after);
}

} // namespace kernels::cuda
