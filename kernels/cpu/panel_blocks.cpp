// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/panel_blocks.h"

#include "kernels/error.h"
#include "kernels/group_blocks.h"

#include <cstring>

namespace kernels {

namespace {

std::uint16_t load16(const std::uint8_t *bytes)
{
    std::uint16_t value = 0;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

/// quants[i] |= ((bytes[i] >> down) & mask) << up for i < 32, eight at a time: `mask` is below 256 >> down, so that no
/// bit of a neighbour gets in, and below 256 >> up.
void addBits(const std::uint8_t *bytes, std::size_t down, std::uint64_t mask, std::size_t up, RawBlock &block)
{
    const std::uint64_t all = mask * 0x0101010101010101ULL;
    for (std::size_t i = 0; i < 32; i += 8) {
        std::uint64_t word = 0;
        std::uint64_t quants = 0;
        std::memcpy(&word, bytes + i, sizeof(word));
        std::memcpy(&quants, &block.quants[i], sizeof(quants));
        quants |= ((word >> down) & all) << up;
        std::memcpy(&block.quants[i], &quants, sizeof(quants));
    }
}

/// 16 bytes whose low nibbles are numbers 0..15 and whose high nibbles are 16..31.
void splitNibbles(const std::uint8_t *bytes, RawBlock &block)
{
    for (std::size_t j = 0; j < 16; ++j) {
        block.quants[j] = bytes[j] & 15;
        block.quants[j + 16] = bytes[j] >> 4;
    }
}

/// Bit i of the four bytes is the fifth bit of number i.
void addFifthBits(const std::uint8_t *bytes, RawBlock &block)
{
    for (std::size_t i = 0; i < 4; ++i) {
        // Bit j to byte j, as some bit of it, then as its top bit, then as 16; nothing carries into a neighbour.
        const std::uint64_t apart = (bytes[i] * 0x0101010101010101ULL) & 0x8040201008040201ULL;
        const std::uint64_t fifths = ((apart + 0x7f7f7f7f7f7f7f7fULL) & 0x8080808080808080ULL) >> 3U;
        std::uint64_t numbers = 0;
        std::memcpy(&numbers, &block.quants[8 * i], sizeof(numbers));
        numbers |= fifths;
        std::memcpy(&block.quants[8 * i], &numbers, sizeof(numbers));
    }
}

RawBlock readFiveBits(const std::uint8_t *high, const std::uint8_t *low)
{
    RawBlock block;
    splitNibbles(low, block);
    addFifthBits(high, block);
    return block;
}

RawBlock readQ8_0(const std::uint8_t *bytes)
{
    RawBlock block;
    std::memcpy(block.quants.data(), bytes, 32);
    return block;
}

RawBlock readNibbles(const std::uint8_t *bytes)
{
    RawBlock block;
    splitNibbles(bytes, block);
    return block;
}

/// The 6-bit factors of Q4_K and Q5_K, eight pairs in twelve bytes.
void readSixBitPair(const std::uint8_t *s, std::size_t k, RawBlock &block)
{
    const int factor = k < 4 ? s[k] & 63 : (s[k + 4] & 15) | (s[k - 4] >> 6) << 4;
    const int minFactor = k < 4 ? s[k + 4] & 63 : (s[k + 4] >> 4) | (s[k] >> 6) << 4;
    block.factors.fill(static_cast<std::int8_t>(factor));
    block.minFactors.fill(static_cast<std::uint8_t>(minFactor));
}

/// The nibbles of Q4_K and Q5_K: 64 numbers in 32 bytes, the first 32 in the low halves.
void readPairedNibbles(const std::uint8_t *qs, std::size_t k, RawBlock &block)
{
    addBits(qs + 32 * (k / 2), 4 * (k % 2), 15, 0, block);
}

RawBlock readQ4_K(const std::uint8_t *bytes, std::size_t k)
{
    RawBlock block;
    block.scale = load16(bytes);
    block.min = load16(bytes + 2);
    readSixBitPair(bytes + 4, k, block);
    readPairedNibbles(bytes + 16, k, block);
    return block;
}

RawBlock readQ5_K(const std::uint8_t *bytes, std::size_t k)
{
    RawBlock block;
    block.scale = load16(bytes);
    block.min = load16(bytes + 2);
    readSixBitPair(bytes + 4, k, block);
    readPairedNibbles(bytes + 48, k, block);
    addBits(bytes + 16, k, 1, 4, block);
    return block;
}

RawBlock readQ6_K(const std::uint8_t *bytes, std::size_t k)
{
    RawBlock block;
    addBits(bytes + 64 * (k / 4) + 32 * (k % 2), 4 * (k % 4 / 2), 15, 0, block);
    addBits(bytes + 128 + 32 * (k / 4), 2 * (k % 4), 3, 4, block);
    for (std::size_t half = 0; half < 2; ++half)
        block.factors[half] = static_cast<std::int8_t>(bytes[192 + 2 * k + half]);
    block.scale = load16(bytes + 208);
    return block;
}

void readCrumbs(const std::uint8_t *qs, std::size_t k, RawBlock &block)
{
    addBits(qs + 32 * (k / 4), 2 * (k % 4), 3, 0, block);
}

RawBlock readQ2_K(const std::uint8_t *bytes, std::size_t k)
{
    RawBlock block;
    readCrumbs(bytes + 16, k, block);
    for (std::size_t half = 0; half < 2; ++half) {
        block.factors[half] = static_cast<std::int8_t>(bytes[2 * k + half] & 15);
        block.minFactors[half] = bytes[2 * k + half] >> 4;
    }
    block.scale = load16(bytes + 80);
    block.min = load16(bytes + 82);
    return block;
}

RawBlock readQ3_K(const std::uint8_t *bytes, std::size_t k)
{
    RawBlock block;
    readCrumbs(bytes + 32, k, block);
    addBits(bytes, k, 1, 2, block);
    const std::uint8_t *s = bytes + 96;
    for (std::size_t half = 0; half < 2; ++half) {
        const std::size_t g = 2 * k + half;
        const int low = (s[g % 8] >> (4 * (g / 8))) & 15;
        const int high = (s[8 + g % 4] >> (2 * (g / 4))) & 3;
        block.factors[half] = static_cast<std::int8_t>((low | high << 4) - 32);
    }
    block.scale = load16(bytes + 108);
    return block;
}

RawBlock readIQ4_XS(const std::uint8_t *bytes, std::size_t k)
{
    RawBlock block = readNibbles(bytes + 8 + 16 * k);
    const int low = (bytes[4 + k / 2] >> (4 * (k % 2))) & 15;
    const int high = (load16(bytes + 2) >> (2 * k)) & 3;
    block.factors.fill(static_cast<std::int8_t>((low | high << 4) - 32));
    block.scale = load16(bytes);
    return block;
}

RawBlock readGroup(DType type, const std::uint8_t *bytes)
{
    const GroupBlock stored = readGroupBlock(type, bytes);
    RawBlock block;
    block.quants = stored.numbers;
    block.single = stored.scale;
    block.zero = stored.zero;
    return block;
}

RawBlock readSmallBlock(DType type, const std::uint8_t *bytes)
{
    switch (type) {
    case DType::Q4_1:
        return readNibbles(bytes + 4);
    case DType::Q5_0:
        return readFiveBits(bytes + 2, bytes + 6);
    case DType::Q5_1:
        return readFiveBits(bytes + 4, bytes + 8);
    case DType::Q8_0:
        return readQ8_0(bytes + 2);
    case DType::MXFP4:
        return readNibbles(bytes + 1);
    default: // Q4_0, IQ4_NL
        return readNibbles(bytes + 2);
    }
}

RawBlock readSuperBlock(DType type, const std::uint8_t *bytes, std::size_t k)
{
    switch (type) {
    case DType::Q2_K:
        return readQ2_K(bytes, k);
    case DType::Q3_K:
        return readQ3_K(bytes, k);
    case DType::Q4_K:
        return readQ4_K(bytes, k);
    case DType::Q5_K:
        return readQ5_K(bytes, k);
    case DType::Q6_K:
        return readQ6_K(bytes, k);
    default:
        return readIQ4_XS(bytes, k);
    }
}

} // namespace

RawBlock readRawBlock(DType type, const std::uint8_t *row, std::int64_t index)
{
    const DTypeInfo &layout = info(type);
    CHECK(layout.quantized);
    if (layout.blockElements == 256)
        return readSuperBlock(type, row + index / 8 * layout.blockBytes, static_cast<std::size_t>(index % 8));
    const std::uint8_t *bytes = row + index * layout.blockBytes;
    if (isGroupType(type))
        return readGroup(type, bytes);
    RawBlock block = readSmallBlock(type, bytes);
    block.scale = type == DType::MXFP4 ? bytes[0] : load16(bytes);
    if (type == DType::Q4_1 || type == DType::Q5_1)
        block.min = load16(bytes + 2);
    return block;
}

} // namespace kernels
