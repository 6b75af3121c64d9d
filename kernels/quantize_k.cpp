// SPDX-License-Identifier: GPL-3.0-or-later
// K-quants: groups of 16 or 32 find their scales first, then whole factors of a common scale are chosen for them, each
// with its neighbours tried, and the common scale is fitted once more to the numbers that came out.
#include "kernels/dequantize_blocks.h"
#include "kernels/quantize_blocks.h"
#include "kernels/quantize_search.h"

#include <algorithm>
#include <cmath>

namespace kernels::blocks {

namespace {

using search::Group;
using search::ScaleAndMin;

constexpr int blockElements = 256;
constexpr int mostGroups = 16;
constexpr int rounds = 2; // of choosing factors and fitting the common scale

/// A block as whole numbers; what the packers write.
struct Fitted {
    float scale = 0.0F;
    float min = 0.0F;
    std::int8_t factors[mostGroups] = {};
    std::uint8_t minFactors[mostGroups] = {};
    std::int8_t numbers[blockElements] = {};
};

struct Shape {
    int group;     ///< elements of a group
    int low, high; ///< numbers
    int factorLow; ///< factors; 0 for types with a minimum
    int factorHigh;
};

Group groupOf(const float *x, const float *weights, int group, int size)
{
    return {x + group * size, weights + group * size, size};
}

float halved(float value)
{
    return halfToFloat(floatToHalf(value));
}

int nearestWhole(float value, int low, int high)
{
    return std::clamp(static_cast<int>(std::lrint(value)), low, high);
}

/// The common scale from the one that reaches furthest.
float commonScale(const float *scales, int groups, const Shape &shape)
{
    float largest = 0.0F;
    for (int g = 0; g < groups; ++g) {
        if (std::fabs(scales[g]) > std::fabs(largest))
            largest = scales[g];
    }
    return largest / static_cast<float>(shape.factorLow < 0 ? shape.factorLow : shape.factorHigh);
}

/// The factor of one group: the nearest to its own scale or a neighbour, whichever leaves the least error.
void chooseFactor(const Group &group, float wanted, const Shape &shape, int index, Fitted &fit)
{
    const int middle = fit.scale != 0.0F ? nearestWhole(wanted / fit.scale, shape.factorLow, shape.factorHigh) : 0;
    float least = -1.0F;
    std::int8_t numbers[search::mostElements];
    for (int factor = std::max(middle - 1, shape.factorLow); factor <= std::min(middle + 1, shape.factorHigh);
         ++factor) {
        const float scale = fit.scale * static_cast<float>(factor);
        const float error = search::roundNumbers(group, {scale, 0.0F}, shape.low, shape.high, numbers);
        if (least >= 0 && error >= least)
            continue;
        least = error;
        fit.factors[index] = static_cast<std::int8_t>(factor);
        std::copy_n(numbers, group.count, fit.numbers + index * group.count);
    }
}

/// Least squares for the common scale at the chosen factors and numbers.
float refitScale(const float *x, const float *weights, const Shape &shape, const Fitted &fit)
{
    double products = 0.0;
    double squares = 0.0;
    for (int i = 0; i < blockElements; ++i) {
        const double unit = fit.factors[i / shape.group] * fit.numbers[i];
        products += weights[i] * unit * x[i];
        squares += weights[i] * unit * unit;
    }
    return squares > 0 ? static_cast<float>(products / squares) : fit.scale;
}

Fitted fitSymmetric(const float *x, const float *weights, const Shape &shape)
{
    const int groups = blockElements / shape.group;
    float scales[mostGroups];
    for (int g = 0; g < groups; ++g)
        scales[g] = search::scaleOf(groupOf(x, weights, g, shape.group), shape.low, shape.high);
    Fitted fit;
    fit.scale = halved(commonScale(scales, groups, shape));
    for (int round = 0; round < rounds; ++round) {
        for (int g = 0; g < groups; ++g)
            chooseFactor(groupOf(x, weights, g, shape.group), scales[g], shape, g, fit);
        if (round + 1 < rounds)
            fit.scale = halved(refitScale(x, weights, shape, fit));
    }
    return fit;
}

/// As chooseFactor, with a factor of the common minimum besides.
void chooseFactors(const Group &group, ScaleAndMin wanted, const Shape &shape, int index, Fitted &fit)
{
    const int middle = fit.scale > 0 ? nearestWhole(wanted.scale / fit.scale, 0, shape.factorHigh) : 0;
    const int minMiddle = fit.min > 0 ? nearestWhole(-wanted.min / fit.min, 0, shape.factorHigh) : 0;
    float least = -1.0F;
    std::int8_t numbers[search::mostElements];
    for (int factor = std::max(middle - 1, 0); factor <= std::min(middle + 1, shape.factorHigh); ++factor) {
        for (int min = std::max(minMiddle - 1, 0); min <= std::min(minMiddle + 1, shape.factorHigh); ++min) {
            const ScaleAndMin values{fit.scale * static_cast<float>(factor), -(fit.min * static_cast<float>(min))};
            const float error = search::roundNumbers(group, values, 0, shape.high, numbers);
            if (least >= 0 && error >= least)
                continue;
            least = error;
            fit.factors[index] = static_cast<std::int8_t>(factor);
            fit.minFactors[index] = static_cast<std::uint8_t>(min);
            std::copy_n(numbers, group.count, fit.numbers + index * group.count);
        }
    }
}

/// Least squares for the common scale and minimum.
void refitBoth(const float *x, const float *weights, const Shape &shape, Fitted &fit)
{
    double ss = 0.0, sm = 0.0, mm = 0.0, sx = 0.0, mx = 0.0;
    for (int i = 0; i < blockElements; ++i) {
        const int g = i / shape.group;
        const double s = fit.factors[g] * fit.numbers[i];
        const double m = -static_cast<double>(fit.minFactors[g]);
        ss += weights[i] * s * s;
        sm += weights[i] * s * m;
        mm += weights[i] * m * m;
        sx += weights[i] * s * x[i];
        mx += weights[i] * m * x[i];
    }
    const double determinant = ss * mm - sm * sm;
    if (determinant <= 1e-9 * ss * mm)
        return;
    const double scale = (mm * sx - sm * mx) / determinant;
    const double min = (ss * mx - sm * sx) / determinant;
    if (scale > 0 && min > 0) {
        fit.scale = halved(static_cast<float>(scale));
        fit.min = halved(static_cast<float>(min));
    }
}

Fitted fitShifted(const float *x, const float *weights, const Shape &shape)
{
    const int groups = blockElements / shape.group;
    ScaleAndMin wanted[mostGroups];
    float scales[mostGroups];
    float mins[mostGroups];
    for (int g = 0; g < groups; ++g) {
        wanted[g] = search::scaleAndMinOf(groupOf(x, weights, g, shape.group), shape.high, true);
        scales[g] = wanted[g].scale;
        mins[g] = -wanted[g].min;
    }
    Fitted fit;
    fit.scale = halved(commonScale(scales, groups, shape));
    fit.min = halved(commonScale(mins, groups, shape));
    for (int round = 0; round < rounds; ++round) {
        for (int g = 0; g < groups; ++g)
            chooseFactors(groupOf(x, weights, g, shape.group), wanted[g], shape, g, fit);
        if (round + 1 < rounds)
            refitBoth(x, weights, shape, fit);
    }
    return fit;
}

void storeScale(std::uint8_t *target, float value)
{
    storeHalf(target, floatToHalf(value));
}

void writeQ2_K(const float *x, const float *weights, std::uint8_t *block)
{
    const Fitted fit = fitShifted(x, weights, {16, 0, 3, 0, 15});
    for (int g = 0; g < 16; ++g)
        block[g] = static_cast<std::uint8_t>(fit.factors[g] | fit.minFactors[g] << 4);
    for (int i = 0; i < 64; ++i) {
        const std::int8_t *first = fit.numbers + i / 32 * 128 + i % 32;
        block[16 + i] = static_cast<std::uint8_t>(first[0] | first[32] << 2 | first[64] << 4 | first[96] << 6);
    }
    storeScale(block + 80, fit.scale);
    storeScale(block + 82, fit.min);
}

void writeQ3_K(const float *x, const float *weights, std::uint8_t *block)
{
    const Fitted fit = fitSymmetric(x, weights, {16, -4, 3, -32, 31});
    std::fill_n(block, 110, std::uint8_t{0});
    for (int i = 0; i < blockElements; ++i) {
        const int number = fit.numbers[i] + 4;
        block[i % 32] |= static_cast<std::uint8_t>((number >> 2) << (i / 32));
        block[32 + i / 128 * 32 + i % 32] |= static_cast<std::uint8_t>((number & 3) << (2 * (i % 128 / 32)));
    }
    for (int g = 0; g < 16; ++g) {
        const int factor = fit.factors[g] + 32;
        block[96 + g % 8] |= static_cast<std::uint8_t>((factor & 15) << (4 * (g / 8)));
        block[104 + g % 4] |= static_cast<std::uint8_t>((factor >> 4) << (2 * (g / 4)));
    }
    storeScale(block + 108, fit.scale);
}

/// Scale, minimum and the eight pairs of 6-bit factors that Q4_K and Q5_K begin with.
void storeHead(const Fitted &fit, std::uint8_t *block)
{
    storeScale(block, fit.scale);
    storeScale(block + 2, fit.min);
    std::uint8_t *packed = block + 4;
    for (int k = 0; k < 4; ++k) {
        const int high = fit.factors[k + 4];
        const int highMin = fit.minFactors[k + 4];
        packed[k] = static_cast<std::uint8_t>(fit.factors[k] | (high >> 4) << 6);
        packed[k + 4] = static_cast<std::uint8_t>(fit.minFactors[k] | (highMin >> 4) << 6);
        packed[k + 8] = static_cast<std::uint8_t>((high & 15) | (highMin & 15) << 4);
    }
}

void storePairedNibbles(const Fitted &fit, std::uint8_t *target)
{
    for (int i = 0; i < 128; ++i) {
        const std::int8_t *first = fit.numbers + i / 32 * 64 + i % 32;
        target[i] = static_cast<std::uint8_t>((first[0] & 15) | (first[32] & 15) << 4);
    }
}

void writeQ4_K(const float *x, const float *weights, std::uint8_t *block)
{
    const Fitted fit = fitShifted(x, weights, {32, 0, 15, 0, 63});
    storeHead(fit, block);
    storePairedNibbles(fit, block + 16);
}

void writeQ5_K(const float *x, const float *weights, std::uint8_t *block)
{
    const Fitted fit = fitShifted(x, weights, {32, 0, 31, 0, 63});
    storeHead(fit, block);
    std::fill_n(block + 16, 32, std::uint8_t{0});
    for (int i = 0; i < blockElements; ++i)
        block[16 + i % 32] |= static_cast<std::uint8_t>((fit.numbers[i] >> 4) << (i / 32));
    storePairedNibbles(fit, block + 48);
}

void writeQ6_K(const float *x, const float *weights, std::uint8_t *block)
{
    const Fitted fit = fitSymmetric(x, weights, {16, -32, 31, -128, 127});
    std::fill_n(block, 192, std::uint8_t{0});
    for (int i = 0; i < blockElements; ++i) {
        const int number = fit.numbers[i] + 32;
        const int quarter = i % 128 / 32;
        block[64 * (i / 128) + 32 * (quarter % 2) + i % 32] |=
            static_cast<std::uint8_t>((number & 15) << (4 * (quarter / 2)));
        block[128 + 32 * (i / 128) + i % 32] |= static_cast<std::uint8_t>((number >> 4) << (2 * quarter));
    }
    for (int g = 0; g < 16; ++g)
        block[192 + g] = static_cast<std::uint8_t>(fit.factors[g]);
    storeScale(block + 208, fit.scale);
}

void writeIQ4_XS(const float *x, const float *weights, std::uint8_t *block)
{
    float scales[8];
    for (int g = 0; g < 8; ++g)
        scales[g] = search::scaleOfTable(groupOf(x, weights, g, 32), iq4Values);
    const float scale = halved(commonScale(scales, 8, {32, 0, 15, -32, 31}));
    std::fill_n(block, 136, std::uint8_t{0});
    storeScale(block, scale);
    std::uint32_t highBits = 0;
    for (int g = 0; g < 8; ++g) {
        const int factor = scale != 0.0F ? nearestWhole(scales[g] / scale, -32, 31) : 0;
        std::int8_t numbers[32];
        (void)search::roundToTable(groupOf(x, weights, g, 32), scale * static_cast<float>(factor), iq4Values, numbers);
        for (int j = 0; j < 16; ++j)
            block[8 + 16 * g + j] = static_cast<std::uint8_t>(numbers[j] | numbers[j + 16] << 4);
        block[4 + g / 2] |= static_cast<std::uint8_t>(((factor + 32) & 15) << (4 * (g % 2)));
        highBits |= static_cast<std::uint32_t>((factor + 32) >> 4) << (2 * g);
    }
    storeHalf(block + 2, static_cast<std::uint16_t>(highBits));
}

} // namespace

BlockWriter superBlockWriter(DType type)
{
    switch (type) {
    case DType::Q2_K:
        return writeQ2_K;
    case DType::Q3_K:
        return writeQ3_K;
    case DType::Q4_K:
        return writeQ4_K;
    case DType::Q5_K:
        return writeQ5_K;
    case DType::Q6_K:
        return writeQ6_K;
    case DType::IQ4_XS:
        return writeIQ4_XS;
    default:
        return nullptr;
    }
}

} // namespace kernels::blocks
