// SPDX-License-Identifier: GPL-3.0-or-later
// Types whose scale follows from the largest value; the bytes are those of the `gguf` package.
#include "kernels/dequantize_blocks.h"
#include "kernels/quantize_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace kernels::blocks {

namespace {

float largestOf(const float *x, int count)
{
    float largest = 0.0F;
    for (int i = 0; i < count; ++i)
        largest = std::max(largest, std::fabs(x[i]));
    return largest;
}

float inverseOf(float scale)
{
    return scale == 0.0F ? 0.0F : 1.0F / scale;
}

void writeQ8_0(const float *x, const float *, std::uint8_t *block)
{
    const float scale = largestOf(x, 32) / 127.0F;
    const float inverse = inverseOf(scale);
    storeHalf(block, floatToHalf(scale));
    for (int i = 0; i < 32; ++i)
        block[2 + i] = static_cast<std::uint8_t>(static_cast<std::int8_t>(std::round(x[i] * inverse)));
}

/// Ternary numbers 0..2 at the largest value as scale, which goes to `half`.
void roundTernary(const float *x, std::uint8_t *half, std::uint8_t *digits)
{
    const float scale = largestOf(x, 256);
    const float inverse = inverseOf(scale);
    storeHalf(half, floatToHalf(scale));
    for (int i = 0; i < 256; ++i)
        digits[i] = static_cast<std::uint8_t>(static_cast<int>(std::round(x[i] * inverse)) + 1);
}

void writeTQ2_0(const float *x, const float *, std::uint8_t *block)
{
    std::uint8_t digits[256];
    roundTernary(x, block + 64, digits);
    for (int i = 0; i < 64; ++i) {
        const std::uint8_t *first = digits + i / 32 * 128 + i % 32;
        block[i] = static_cast<std::uint8_t>(first[0] | first[32] << 2 | first[64] << 4 | first[96] << 6);
    }
}

/// Five digits, or four and a zero, `stride` apart, as the fraction of 256 that yields them again by multiplication.
std::uint8_t packDigits(const std::uint8_t *digits, int stride, int count)
{
    int value = 0;
    for (int i = 0; i < 5; ++i)
        value = 3 * value + (i < count ? digits[i * stride] : 0);
    return static_cast<std::uint8_t>((value * 256 + 242) / 243);
}

void writeTQ1_0(const float *x, const float *, std::uint8_t *block)
{
    std::uint8_t digits[256];
    roundTernary(x, block + 52, digits);
    for (int i = 0; i < 32; ++i)
        block[i] = packDigits(digits + i, 32, 5);
    for (int i = 0; i < 16; ++i)
        block[32 + i] = packDigits(digits + 160 + i, 16, 5);
    for (int i = 0; i < 4; ++i)
        block[48 + i] = packDigits(digits + 240 + i, 4, 4);
}

/// Nearest of the doubled E2M1 numbers, the first of equals.
int nearestE2m1(float value, float scale)
{
    int best = 0;
    float least = std::fabs(scale * static_cast<float>(doubledE2m1[0]) - value);
    for (int i = 1; i < 16; ++i) {
        const float distance = std::fabs(scale * static_cast<float>(doubledE2m1[static_cast<std::size_t>(i)]) - value);
        if (distance < least) {
            least = distance;
            best = i;
        }
    }
    return best;
}

void writeMXFP4(const float *x, const float *, std::uint8_t *block)
{
    const float largest = largestOf(x, 32);
    const int exponent = largest > 0 ? std::clamp(std::ilogb(largest) - 2 + 127, 0, 254) : 0;
    const float scale = std::ldexp(1.0F, exponent - 128); // half of it, for doubled numbers
    block[0] = static_cast<std::uint8_t>(exponent);
    for (int j = 0; j < 16; ++j)
        block[1 + j] = static_cast<std::uint8_t>(nearestE2m1(x[j], scale) | nearestE2m1(x[j + 16], scale) << 4);
}

} // namespace

BlockWriter roundingWriter(DType type)
{
    switch (type) {
    case DType::Q8_0:
        return writeQ8_0;
    case DType::MXFP4:
        return writeMXFP4;
    case DType::TQ1_0:
        return writeTQ1_0;
    case DType::TQ2_0:
        return writeTQ2_0;
    default:
        return nullptr;
    }
}

} // namespace kernels::blocks
