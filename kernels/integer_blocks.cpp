// SPDX-License-Identifier: GPL-3.0-or-later
// All products of a scale with its factor below are exact: 11 bits of a half times at most 5 bits.
#include "kernels/integer_blocks.h"

#include "kernels/codebooks.h"
#include "kernels/dequantize_blocks.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace kernels {

namespace {

using blocks::loadHalf;

std::uint32_t load16(const std::uint8_t *bytes)
{
    return static_cast<std::uint32_t>(bytes[0]) | static_cast<std::uint32_t>(bytes[1]) << 8;
}

std::uint32_t load32(const std::uint8_t *bytes)
{
    return load16(bytes) | load16(bytes + 2) << 16;
}

std::uint32_t nibble(const std::uint8_t *bytes, int index)
{
    return (bytes[index / 2] >> (4 * (index % 2))) & 15U;
}

/// Seven stored signs; the eighth makes the number of minus signs even.
std::uint32_t evenSigns(std::uint32_t seven)
{
    return seven | (static_cast<std::uint32_t>(std::popcount(seven)) & 1U) << 7;
}

/// Elements [8 group, 8 group + 8) from positive bytes and a sign bit each.
void storeSigned(IntegerBlock &target, int group, std::uint64_t bytes, std::uint32_t signs)
{
    const std::uint64_t mask = signMasks[signs];
    const std::uint64_t values = (bytes ^ mask) + (mask & 0x0101010101010101U); // no byte is 0, so nothing carries
    std::memcpy(target.numbers.data() + 8 * group, &values, sizeof values);
}

std::uint64_t pairOf(std::uint32_t first, std::uint32_t second)
{
    return first | static_cast<std::uint64_t>(second) << 32;
}

/// Elements of a ternary group, eightfold, moved by one up or down.
void storeShifted(IntegerBlock &target, int group, std::uint64_t bytes, bool down)
{
    std::int8_t values[8];
    std::memcpy(values, &bytes, sizeof values);
    const int shift = down ? -1 : 1;
    for (int i = 0; i < 8; ++i)
        target.numbers[static_cast<std::size_t>(8 * group + i)] = static_cast<std::int8_t>(values[i] + shift);
}

void readIQ2_XXS(const std::uint8_t *block, int part, IntegerBlock &target)
{
    const std::uint8_t *groups = block + 2 + 8 * part;
    const std::uint32_t signsAndScale = load32(groups + 4);
    for (int g = 0; g < 4; ++g)
        storeSigned(target, g, groups256[groups[g]], evenSigns((signsAndScale >> (7 * g)) & 127U));
    target.scales.fill(loadHalf(block) * (0.5F + static_cast<float>(signsAndScale >> 28)) * 0.25F);
}

void readIQ2_XS(const std::uint8_t *block, int part, IntegerBlock &target)
{
    for (int g = 0; g < 4; ++g) {
        const std::uint32_t code = load16(block + 2 + 8 * part + 2 * g);
        storeSigned(target, g, groups512[code & 511U], evenSigns(code >> 9));
    }
    for (int half = 0; half < 2; ++half)
        target.scales[static_cast<std::size_t>(half)] =
            loadHalf(block) * (0.5F + static_cast<float>(nibble(block + 66, 2 * part + half))) * 0.25F;
}

void readIQ2_S(const std::uint8_t *block, int part, IntegerBlock &target)
{
    const std::uint8_t *low = block + 2 + 4 * part;
    const std::uint8_t *signs = block + 34 + 4 * part;
    const std::uint32_t high = block[66 + part];
    for (int g = 0; g < 4; ++g)
        storeSigned(target, g, groups1024[low[g] | ((high >> (2 * g)) & 3U) << 8], signs[g]);
    for (int half = 0; half < 2; ++half)
        target.scales[static_cast<std::size_t>(half)] =
            loadHalf(block) * (0.5F + static_cast<float>(nibble(block + 74, 2 * part + half))) * 0.25F;
}

void readIQ3_XXS(const std::uint8_t *block, int part, IntegerBlock &target)
{
    const std::uint8_t *quads = block + 2 + 8 * part;
    const std::uint32_t signsAndScale = load32(block + 66 + 4 * part);
    for (int g = 0; g < 4; ++g)
        storeSigned(target, g, pairOf(quads256[quads[2 * g]], quads256[quads[2 * g + 1]]),
                    evenSigns((signsAndScale >> (7 * g)) & 127U));
    target.scales.fill(loadHalf(block) * (0.5F + static_cast<float>(signsAndScale >> 28)) * 0.5F);
}

void readIQ3_S(const std::uint8_t *block, int part, IntegerBlock &target)
{
    const std::uint8_t *low = block + 2 + 8 * part;
    const std::uint32_t high = block[66 + part];
    const std::uint8_t *signs = block + 74 + 4 * part;
    const auto quad = [&](int i) { return quads512[low[i] | ((high >> i) & 1U) << 8]; };
    for (int g = 0; g < 4; ++g)
        storeSigned(target, g, pairOf(quad(2 * g), quad(2 * g + 1)), signs[g]);
    target.scales.fill(loadHalf(block) * static_cast<float>(1 + 2 * nibble(block + 106, part)));
}

void readIQ1_S(const std::uint8_t *block, int part, IntegerBlock &target)
{
    const std::uint32_t high = load16(block + 34 + 2 * part);
    for (int g = 0; g < 4; ++g)
        storeShifted(target, g, ternaryGroups[block[2 + 4 * part + g] | ((high >> (3 * g)) & 7U) << 8],
                     (high & 0x8000U) != 0);
    target.scales.fill(loadHalf(block) * static_cast<float>(2 * ((high >> 12) & 7U) + 1) * 0.125F);
}

/// The scale of IQ1_M stands in the top four bits of its four words of factors.
float scaleIQ1_M(const std::uint8_t *words)
{
    std::uint32_t half = 0;
    for (int i = 0; i < 4; ++i)
        half |= (load16(words + 2 * i) >> 12) << (4 * i);
    return halfToFloat(static_cast<std::uint16_t>(half));
}

void readIQ1_M(const std::uint8_t *block, int part, IntegerBlock &target)
{
    for (int g = 0; g < 4; ++g) {
        const std::uint32_t high = nibble(block + 32 + 2 * part, g);
        storeShifted(target, g, ternaryGroups[block[4 * part + g] | (high & 7U) << 8], (high & 8U) != 0);
    }
    const float scale = scaleIQ1_M(block + 48);
    for (int half = 0; half < 2; ++half) {
        const int group = 2 * part + half;
        const std::uint32_t factor = (load16(block + 48 + group / 4 * 2) >> (3 * (group % 4))) & 7U;
        target.scales[static_cast<std::size_t>(half)] = scale * static_cast<float>(2 * factor + 1) * 0.125F;
    }
}

/// A byte holds five ternary digits as the fraction byte / 256; `power` is 3 to the place of the wanted one.
std::int8_t ternaryDigit(std::uint8_t byte, std::uint32_t power)
{
    return static_cast<std::int8_t>((((byte * power) & 255U) * 3U >> 8) - 1U);
}

/// Digits 0..159 lie in 32 bytes (place = element / 32), 160..239 in 16 bytes, the last 16 in four bytes.
void readTQ1_0(const std::uint8_t *block, int part, IntegerBlock &target)
{
    constexpr std::uint32_t powers[5] = {1, 3, 9, 27, 81};
    for (int i = 0; i < 32; ++i) {
        const int element = 32 * part + i;
        std::int8_t &number = target.numbers[static_cast<std::size_t>(i)];
        if (element < 160)
            number = ternaryDigit(block[i], powers[part]);
        else if (element < 240)
            number = ternaryDigit(block[32 + element % 16], powers[(element - 160) / 16]);
        else
            number = ternaryDigit(block[48 + element % 4], powers[(element - 240) / 4]);
    }
    target.scales.fill(loadHalf(block + 52));
}

void readTQ2_0(const std::uint8_t *block, int part, IntegerBlock &target)
{
    const std::uint8_t *crumbs = block + 32 * (part / 4);
    for (std::size_t i = 0; i < 32; ++i)
        target.numbers[i] = static_cast<std::int8_t>(((crumbs[i] >> (2 * (part % 4))) & 3) - 1);
    target.scales.fill(loadHalf(block + 64));
}

/// Half of an unsigned E4M3 number; ggml takes 0x7f (not a number) as 0 and ignores the top bit.
float halvedUe4m3(std::uint8_t byte)
{
    if (byte == 0x7f)
        return 0.0F;
    const int exponent = (byte >> 3) & 15;
    const int mantissa = byte & 7;
    return exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -10)
                         : std::ldexp(static_cast<float>(8 + mantissa), exponent - 11);
}

void readNVFP4(const std::uint8_t *block, int part, IntegerBlock &target)
{
    for (int half = 0; half < 2; ++half) {
        const int group = 2 * part + half;
        const std::uint8_t *bytes = block + 4 + 8 * group;
        std::int8_t *numbers = target.numbers.data() + 16 * half;
        for (int j = 0; j < 8; ++j) {
            numbers[j] = blocks::doubledE2m1[bytes[j] & 15];
            numbers[j + 8] = blocks::doubledE2m1[bytes[j] >> 4];
        }
        target.scales[static_cast<std::size_t>(half)] = halvedUe4m3(block[group]);
    }
}

} // namespace

IntegerBlockReader integerBlockReader(DType type)
{
    switch (type) {
    case DType::IQ1_S:
        return readIQ1_S;
    case DType::IQ1_M:
        return readIQ1_M;
    case DType::IQ2_XXS:
        return readIQ2_XXS;
    case DType::IQ2_XS:
        return readIQ2_XS;
    case DType::IQ2_S:
        return readIQ2_S;
    case DType::IQ3_XXS:
        return readIQ3_XXS;
    case DType::IQ3_S:
        return readIQ3_S;
    case DType::TQ1_0:
        return readTQ1_0;
    case DType::TQ2_0:
        return readTQ2_0;
    case DType::NVFP4:
        return readNVFP4;
    default:
        return nullptr;
    }
}

} // namespace kernels
