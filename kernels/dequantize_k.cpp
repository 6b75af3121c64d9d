// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/dequantize_blocks.h"

namespace kernels::blocks {

namespace {

struct ScaleAndMin {
    int scale = 0;
    int min = 0;
};

/// 6-bit scale and minimum of sub-block `k` (0..7) from the 12 packed bytes of Q4_K and Q5_K.
ScaleAndMin unpackScaleAndMin(const std::uint8_t *packed, int k)
{
    if (k < 4)
        return {packed[k] & 63, packed[k + 4] & 63};
    return {(packed[k + 4] & 15) | (packed[k - 4] >> 6) << 4, (packed[k + 4] >> 4) | (packed[k] >> 6) << 4};
}

/// Signed 6-bit scale of sub-block `g` (0..15) from the 12 packed bytes of Q3_K.
int unpackScaleQ3_K(const std::uint8_t *packed, int g)
{
    const int low = (packed[g % 8] >> (4 * (g / 8))) & 15;
    const int high = (packed[8 + g % 4] >> (2 * (g / 4))) & 3;
    return (low | high << 4) - 32;
}

} // namespace

void expandQ2_K(const std::uint8_t *block, float *target)
{
    const std::uint8_t *scales = block;
    const std::uint8_t *quants = block + 16;
    const float d = loadHalf(block + 80);
    const float dMin = loadHalf(block + 82);
    for (int g = 0; g < 16; ++g) { // 16 elements each
        const float scale = d * static_cast<float>(scales[g] & 15);
        const float min = dMin * static_cast<float>(scales[g] >> 4);
        const std::uint8_t *q = quants + 32 * (g / 8) + 16 * (g % 2);
        const int shift = 2 * (g / 2 % 4);
        for (int i = 0; i < 16; ++i)
            target[16 * g + i] = scale * static_cast<float>((q[i] >> shift) & 3) - min;
    }
}

void expandQ3_K(const std::uint8_t *block, float *target)
{
    const std::uint8_t *highMask = block;
    const std::uint8_t *quants = block + 32;
    const std::uint8_t *scales = block + 96;
    const float d = loadHalf(block + 108);
    for (int g = 0; g < 16; ++g) {
        const float scale = d * static_cast<float>(unpackScaleQ3_K(scales, g));
        const std::uint8_t *q = quants + 32 * (g / 8) + 16 * (g % 2);
        const std::uint8_t *high = highMask + 16 * (g % 2);
        const int shift = 2 * (g / 2 % 4);
        const int bit = g / 2; // bits of hmask count the groups of 32 elements
        for (int i = 0; i < 16; ++i) {
            const int value = ((q[i] >> shift) & 3) - ((high[i] >> bit) & 1 ? 0 : 4);
            target[16 * g + i] = scale * static_cast<float>(value);
        }
    }
}

void expandQ4_K(const std::uint8_t *block, float *target)
{
    const float d = loadHalf(block);
    const float dMin = loadHalf(block + 2);
    for (int k = 0; k < 8; ++k) { // 32 elements each
        const ScaleAndMin packed = unpackScaleAndMin(block + 4, k);
        const float scale = d * static_cast<float>(packed.scale);
        const float min = dMin * static_cast<float>(packed.min);
        const std::uint8_t *q = block + 16 + 32 * (k / 2);
        const int shift = 4 * (k % 2);
        for (int i = 0; i < 32; ++i)
            target[32 * k + i] = scale * static_cast<float>((q[i] >> shift) & 15) - min;
    }
}

void expandQ5_K(const std::uint8_t *block, float *target)
{
    const float d = loadHalf(block);
    const float dMin = loadHalf(block + 2);
    const std::uint8_t *high = block + 16;
    for (int k = 0; k < 8; ++k) {
        const ScaleAndMin packed = unpackScaleAndMin(block + 4, k);
        const float scale = d * static_cast<float>(packed.scale);
        const float min = dMin * static_cast<float>(packed.min);
        const std::uint8_t *q = block + 48 + 32 * (k / 2);
        const int shift = 4 * (k % 2);
        for (int i = 0; i < 32; ++i) {
            const int value = ((q[i] >> shift) & 15) | ((high[i] >> k) & 1) << 4;
            target[32 * k + i] = scale * static_cast<float>(value) - min;
        }
    }
}

void expandQ6_K(const std::uint8_t *block, float *target)
{
    const std::uint8_t *scales = block + 192;
    const float d = loadHalf(block + 208);
    for (int g = 0; g < 16; ++g) {
        const float scale = d * static_cast<float>(static_cast<std::int8_t>(scales[g]));
        const int half = g / 8;
        const int j = g / 2 % 4; // which 32 elements of the half
        const std::uint8_t *low = block + 64 * half + 32 * (j % 2) + 16 * (g % 2);
        const std::uint8_t *high = block + 128 + 32 * half + 16 * (g % 2);
        const int lowShift = 4 * (j / 2);
        for (int i = 0; i < 16; ++i) {
            const int value = ((low[i] >> lowShift) & 15) | ((high[i] >> (2 * j)) & 3) << 4;
            target[16 * g + i] = scale * static_cast<float>(value - 32);
        }
    }
}

void expandIQ4_XS(const std::uint8_t *block, float *target)
{
    const float d = loadHalf(block);
    const int highScales = block[2] | block[3] << 8;
    for (int k = 0; k < 8; ++k) {
        const int low = (block[4 + k / 2] >> (4 * (k % 2))) & 15;
        const int high = (highScales >> (2 * k)) & 3;
        const float scale = d * static_cast<float>((low | high << 4) - 32);
        const std::uint8_t *q = block + 8 + 16 * k;
        for (int i = 0; i < 16; ++i) {
            target[32 * k + i] = scale * static_cast<float>(iq4Values[q[i] & 15]);
            target[32 * k + 16 + i] = scale * static_cast<float>(iq4Values[q[i] >> 4]);
        }
    }
}

} // namespace kernels::blocks
