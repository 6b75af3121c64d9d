// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/quantize.h"

#include "kernels/dequantize_blocks.h"
#include "kernels/error.h"
#include "kernels/quantize_blocks.h"
#include "kernels/quantize_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace kernels {

namespace {

constexpr float largestHalf = 65504.0F;
constexpr float leastImportance = 1e-4F; // of the mean: columns that calibration never met still have a value

/// Bytes with number j in the low and number 16 + j in the high nibble.
void storeNibbles(const std::int8_t *numbers, std::uint8_t *target)
{
    for (int j = 0; j < 16; ++j)
        target[j] = static_cast<std::uint8_t>((numbers[j] & 15) | (numbers[16 + j] & 15) << 4);
}

void storeFifthBits(const std::int8_t *numbers, std::uint8_t *target)
{
    std::uint32_t bits = 0;
    for (int i = 0; i < 32; ++i)
        bits |= static_cast<std::uint32_t>((numbers[i] >> 4) & 1) << i;
    std::memcpy(target, &bits, sizeof bits);
}

/// Numbers of a symmetric type, moved to start at 0; stores the scale at `block`.
void fitSymmetric(const search::Group &group, int low, int high, std::uint8_t *block, std::int8_t *numbers)
{
    float scale = search::scaleOf(group, low, high);
    blocks::storeRounded(block, scale);
    (void)search::roundNumbers(group, {scale, 0.0F}, low, high, numbers);
    for (int i = 0; i < group.count; ++i)
        numbers[i] = static_cast<std::int8_t>(numbers[i] - low);
}

/// Numbers of a type with a minimum; stores scale and minimum at `block`.
void fitShifted(const search::Group &group, int high, std::uint8_t *block, std::int8_t *numbers)
{
    search::ScaleAndMin fit = search::scaleAndMinOf(group, high, false);
    blocks::storeRounded(block, fit.scale);
    blocks::storeRounded(block + 2, fit.min);
    (void)search::roundNumbers(group, fit, 0, high, numbers);
}

void writeQ4_0(const float *x, const float *weights, std::uint8_t *block)
{
    std::int8_t numbers[32];
    fitSymmetric({x, weights, 32}, -8, 7, block, numbers);
    storeNibbles(numbers, block + 2);
}

void writeQ4_1(const float *x, const float *weights, std::uint8_t *block)
{
    std::int8_t numbers[32];
    fitShifted({x, weights, 32}, 15, block, numbers);
    storeNibbles(numbers, block + 4);
}

void writeQ5_0(const float *x, const float *weights, std::uint8_t *block)
{
    std::int8_t numbers[32];
    fitSymmetric({x, weights, 32}, -16, 15, block, numbers);
    storeFifthBits(numbers, block + 2);
    storeNibbles(numbers, block + 6);
}

void writeQ5_1(const float *x, const float *weights, std::uint8_t *block)
{
    std::int8_t numbers[32];
    fitShifted({x, weights, 32}, 31, block, numbers);
    storeFifthBits(numbers, block + 4);
    storeNibbles(numbers, block + 8);
}

void writeIQ4_NL(const float *x, const float *weights, std::uint8_t *block)
{
    const search::Group group{x, weights, 32};
    float scale = search::scaleOfTable(group, blocks::iq4Values);
    blocks::storeRounded(block, scale);
    std::int8_t numbers[32];
    (void)search::roundToTable(group, scale, blocks::iq4Values, numbers);
    storeNibbles(numbers, block + 2);
}

blocks::BlockWriter writerOf(DType type)
{
    switch (type) {
    case DType::Q4_0:
        return writeQ4_0;
    case DType::Q4_1:
        return writeQ4_1;
    case DType::Q5_0:
        return writeQ5_0;
    case DType::Q5_1:
        return writeQ5_1;
    case DType::IQ4_NL:
        return writeIQ4_NL;
    default:
        break;
    }
    if (const blocks::BlockWriter writer = blocks::roundingWriter(type))
        return writer;
    return blocks::superBlockWriter(type);
}

double meanSquare(const float *x, std::int64_t count)
{
    double sum = 0.0;
    for (std::int64_t i = 0; i < count; ++i)
        sum += static_cast<double>(x[i]) * x[i];
    return sum / static_cast<double>(std::max<std::int64_t>(count, 1));
}

/// Without importance all errors count alike in types of 32, and K-quants take more care of large weights. With it the
/// importance is multiplied by sqrt(mean square + x^2). Source: llama.cpp, ggml-quants.c (weights of the searches).
void errorWeights(DType type, const float *x, int count, double rowMeanSquare, const float *importance, float scale,
                  float *weights)
{
    const double square = count == 256 ? meanSquare(x, count) : rowMeanSquare;
    const auto spread = static_cast<float>(square);
    const bool plain = count != 256 || type == DType::IQ4_XS;
    for (int i = 0; i < count; ++i) {
        if (importance != nullptr)
            weights[i] = std::max(importance[i] * scale, leastImportance) * std::sqrt(spread + x[i] * x[i]);
        else
            weights[i] = plain ? 1.0F : std::sqrt(spread) + std::fabs(x[i]);
    }
}

/// What makes the mean of the importance 1; 0 when there is none, then all columns count alike.
float scaleOfImportance(const float *importance, std::int64_t count)
{
    double sum = 0.0;
    for (std::int64_t i = 0; importance != nullptr && i < count; ++i)
        sum += importance[i];
    const double scale = sum > 0 ? static_cast<double>(count) / sum : 0.0;
    return scale < std::numeric_limits<float>::max() ? static_cast<float>(scale) : 0.0F;
}

void quantizeBlocks(DType type, const float *row, std::int64_t elements, const float *importance, std::uint8_t *target)
{
    const blocks::BlockWriter write = writerOf(type);
    CHECK(write != nullptr);
    const DTypeInfo &layout = info(type);
    const float scale = scaleOfImportance(importance, elements);
    const float *used = scale > 0 ? importance : nullptr;
    const double rowMeanSquare = meanSquare(row, elements);
    float weights[256];
    for (std::int64_t at = 0; at < elements; at += layout.blockElements, target += layout.blockBytes) {
        errorWeights(type, row + at, layout.blockElements, rowMeanSquare, used != nullptr ? used + at : nullptr, scale,
                     weights);
        write(row + at, weights, target);
    }
}

template<typename Stored, typename Convert>
void convertRow(const float *row, std::int64_t elements, std::byte *target, Convert convert)
{
    for (std::int64_t i = 0; i < elements; ++i) {
        const Stored value = convert(row[i]);
        std::memcpy(target + static_cast<std::size_t>(i) * sizeof value, &value, sizeof value);
    }
}

} // namespace

bool canQuantize(DType type)
{
    return type == DType::F32 || type == DType::F16 || type == DType::BF16 || writerOf(type) != nullptr;
}

float largestMagnitude(DType type)
{
    if (type == DType::F32 || type == DType::BF16 || type == DType::MXFP4)
        return 3.3895314e38F; // the largest BF16, with room for MXFP4's steps
    return largestHalf;       // as a scale, with room for every number that a type multiplies it by
}

void quantizeRow(DType type, const float *row, std::int64_t elements, const float *importance, std::byte *target)
{
    const std::size_t size = rowBytes(type, elements); // checks the precondition
    switch (type) {
    case DType::F32:
        std::memcpy(target, row, size);
        return;
    case DType::F16:
        return convertRow<std::uint16_t>(row, elements, target, floatToHalf);
    case DType::BF16:
        return convertRow<std::uint16_t>(row, elements, target, floatToBf16);
    default:
        return quantizeBlocks(type, row, elements, importance, reinterpret_cast<std::uint8_t *>(target));
    }
}

} // namespace kernels
