// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/float_blocks.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

namespace kernels {

namespace {

constexpr float e4m3Number(std::uint32_t byte)
{
    if ((byte & 0x7fU) == 0x7fU)
        return std::numeric_limits<float>::quiet_NaN();
    const std::uint32_t exponent = (byte >> 3) & 15U;
    const std::uint32_t mantissa = byte & 7U;
    const float size = exponent == 0
        ? static_cast<float>(mantissa) / 512.0F
        : std::bit_cast<float>((exponent + 120U) << 23 | mantissa << 20); // bias 7 becomes 127
    return (byte & 0x80U) != 0 ? -size : size;
}

constexpr std::array<float, 256> makeE4m3()
{
    std::array<float, 256> numbers{};
    for (std::uint32_t byte = 0; byte < 256; ++byte)
        numbers[byte] = e4m3Number(byte);
    return numbers;
}

float scaleOf(const std::uint8_t *block)
{
    float scale = 0.0F;
    std::memcpy(&scale, block, sizeof scale);
    return scale;
}

void readFP8(const std::uint8_t *block, float *target)
{
    const float scale = scaleOf(block);
    for (int i = 0; i < 32; ++i)
        target[i] = e4m3Numbers[block[4 + i]] * scale;
}

/// E5M2 is the upper byte of a half.
void readE5M2(const std::uint8_t *block, float *target)
{
    const float scale = scaleOf(block);
    for (int i = 0; i < 32; ++i)
        target[i] = halfToFloat(static_cast<std::uint16_t>(block[4 + i] << 8)) * scale;
}

/// Half to even at bit `Bits`: what rounding to a narrower float comes to while the number is a normal one of it.
template<int Bits> float roundedAt(float value)
{
    const auto bits = std::bit_cast<std::uint32_t>(value);
    constexpr std::uint32_t below = (1U << Bits) - 1U;
    return std::bit_cast<float>((bits + (below >> 1) + ((bits >> Bits) & 1U)) & ~below);
}

float asHalf(float value)
{
    return halfToFloat(floatToHalf(value));
}

float asBrain(float value)
{
    return bf16ToFloat(floatToBf16(value));
}

float asSingle(float value)
{
    return value;
}

/// With scales between these every level but 0 (the least is 1/192) is a normal half and a normal bf16.
constexpr float leastPlainScale = 1.0F / 64.0F;
constexpr float largestPlainScale = 32768.0F;

template<const std::array<float, 16> &Levels, float (*Round)(float), float (*RoundPlain)(float)>
void readLevels(const std::uint8_t *block, float *target)
{
    const float scale = scaleOf(block);
    const bool plain = std::fabs(scale) >= leastPlainScale && std::fabs(scale) <= largestPlainScale;
    std::array<float, 16> levels{};
    for (std::size_t i = 0; plain && i < levels.size(); ++i)
        levels[i] = RoundPlain(Levels[i] * scale);
    for (std::size_t i = 0; !plain && i < levels.size(); ++i)
        levels[i] = Round(Levels[i] * scale);
    for (int j = 0; j < 16; ++j) {
        target[j] = levels[block[4 + j] & 15U];
        target[j + 16] = levels[block[4 + j] >> 4];
    }
}

void readINT8Z(const std::uint8_t *block, float *target)
{
    const float scale = scaleOf(block);
    std::int16_t zero = 0;
    std::memcpy(&zero, block + 4, sizeof zero);
    for (int i = 0; i < 32; ++i)
        target[i] = scale * static_cast<float>(block[6 + i] - zero);
}

} // namespace

const std::array<float, 256> e4m3Numbers = makeE4m3();

FloatBlockReader floatBlockReader(DType type)
{
    switch (type) {
    case DType::FP8:
        return readFP8;
    case DType::FP8_E5M2:
        return readE5M2;
    case DType::NF4:
        return readLevels<nf4Levels, asSingle, asSingle>;
    case DType::NF4_F16:
        return readLevels<nf4Levels, asHalf, roundedAt<13>>;
    case DType::NF4_BF16:
        return readLevels<nf4Levels, asBrain, roundedAt<16>>;
    case DType::FP4:
        return readLevels<fp4Levels, asSingle, asSingle>;
    case DType::FP4_F16:
        return readLevels<fp4Levels, asHalf, roundedAt<13>>;
    case DType::FP4_BF16:
        return readLevels<fp4Levels, asBrain, roundedAt<16>>;
    case DType::INT8Z:
        return readINT8Z;
    default:
        return nullptr;
    }
}

} // namespace kernels
