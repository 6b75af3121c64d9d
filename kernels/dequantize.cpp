// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/dequantize_blocks.h"
#include "kernels/dtype.h"
#include "kernels/error.h"
#include "kernels/float_blocks.h"
#include "kernels/group_blocks.h"
#include "kernels/integer_blocks.h"

#include <bit>
#include <cstring>
#include <string>

namespace kernels {

namespace {

using blocks::loadHalf;

void expandQ4_0(const std::uint8_t *block, float *target)
{
    const float d = loadHalf(block);
    for (int j = 0; j < 16; ++j)
        target[j] = d * static_cast<float>((block[2 + j] & 15) - 8);
    for (int j = 0; j < 16; ++j)
        target[j + 16] = d * static_cast<float>((block[2 + j] >> 4) - 8);
}

void expandQ4_1(const std::uint8_t *block, float *target)
{
    const float d = loadHalf(block);
    const float m = loadHalf(block + 2);
    for (int j = 0; j < 16; ++j)
        target[j] = d * static_cast<float>(block[4 + j] & 15) + m;
    for (int j = 0; j < 16; ++j)
        target[j + 16] = d * static_cast<float>(block[4 + j] >> 4) + m;
}

/// The 5-bit values of a Q5_0 or Q5_1 block: bit i of `high` is the top bit of element i.
void unpackFiveBits(const std::uint8_t *high, const std::uint8_t *low, int *values)
{
    std::uint32_t bits = 0;
    std::memcpy(&bits, high, sizeof bits);
    for (int j = 0; j < 16; ++j) {
        values[j] = (low[j] & 15) | static_cast<int>(((bits >> j) & 1U) << 4);
        values[j + 16] = (low[j] >> 4) | static_cast<int>(((bits >> (j + 16)) & 1U) << 4);
    }
}

void expandQ5_0(const std::uint8_t *block, float *target)
{
    const float d = loadHalf(block);
    int values[32];
    unpackFiveBits(block + 2, block + 6, values);
    for (int i = 0; i < 32; ++i)
        target[i] = d * static_cast<float>(values[i] - 16);
}

void expandQ5_1(const std::uint8_t *block, float *target)
{
    const float d = loadHalf(block);
    const float m = loadHalf(block + 2);
    int values[32];
    unpackFiveBits(block + 4, block + 8, values);
    for (int i = 0; i < 32; ++i)
        target[i] = d * static_cast<float>(values[i]) + m;
}

void expandQ8_0(const std::uint8_t *block, float *target)
{
    const float d = loadHalf(block);
    for (int i = 0; i < 32; ++i)
        target[i] = d * static_cast<float>(static_cast<std::int8_t>(block[2 + i]));
}

void expandIQ4_NL(const std::uint8_t *block, float *target)
{
    const float d = loadHalf(block);
    for (int j = 0; j < 16; ++j) {
        target[j] = d * static_cast<float>(blocks::iq4Values[block[2 + j] & 15]);
        target[j + 16] = d * static_cast<float>(blocks::iq4Values[block[2 + j] >> 4]);
    }
}

/// Half of 2^(exponent - 127), the scale that goes with doubled E2M1 numbers; exponents 0 and 1 give subnormal numbers.
float halvedE8m0(std::uint8_t exponent)
{
    const std::uint32_t bits = exponent < 2 ? 0x00200000U << exponent : static_cast<std::uint32_t>(exponent - 1) << 23;
    return std::bit_cast<float>(bits);
}

void expandMXFP4(const std::uint8_t *block, float *target)
{
    const float d = halvedE8m0(block[0]);
    for (int j = 0; j < 16; ++j) {
        target[j] = d * static_cast<float>(blocks::doubledE2m1[block[1 + j] & 15]);
        target[j + 16] = d * static_cast<float>(blocks::doubledE2m1[block[1 + j] >> 4]);
    }
}

template<auto expandBlock> void expandRow(DType type, const std::uint8_t *source, float *target, std::int64_t elements)
{
    const DTypeInfo &layout = info(type);
    const std::int64_t blockCount = elements / layout.blockElements;
    for (std::int64_t i = 0; i < blockCount; ++i)
        expandBlock(source + i * layout.blockBytes, target + i * layout.blockElements);
}

void expandIntegerBlocks(DType type, const std::uint8_t *source, float *target, std::int64_t elements)
{
    const DTypeInfo &layout = info(type);
    const IntegerBlockReader read = integerBlockReader(type);
    const int parts = layout.blockElements / 32;
    IntegerBlock block;
    for (std::int64_t i = 0; i < elements / 32; ++i) {
        read(source + i / parts * layout.blockBytes, static_cast<int>(i % parts), block);
        for (std::size_t j = 0; j < 32; ++j)
            target[32 * i + static_cast<std::int64_t>(j)] = block.scales[j / 16] * static_cast<float>(block.numbers[j]);
    }
}

void expandFloatBlocks(DType type, const std::uint8_t *source, float *target, std::int64_t elements)
{
    const FloatBlockReader read = floatBlockReader(type);
    for (std::int64_t i = 0; i < elements / 32; ++i)
        read(source + i * info(type).blockBytes, target + 32 * i);
}

void expandGroupBlocks(DType type, const std::uint8_t *source, float *target, std::int64_t elements)
{
    for (std::int64_t i = 0; i < elements / 32; ++i) {
        const GroupBlock block = readGroupBlock(type, source + i * info(type).blockBytes);
        for (std::size_t j = 0; j < 32; ++j)
            target[32 * i + static_cast<std::int64_t>(j)] = block.scale * static_cast<float>(block.numberOf(j));
    }
}

template<typename Stored, typename Convert>
void convertRow(const std::uint8_t *source, float *target, std::int64_t elements, Convert convert)
{
    for (std::int64_t i = 0; i < elements; ++i) {
        Stored value;
        std::memcpy(&value, source + i * static_cast<std::int64_t>(sizeof(Stored)), sizeof(Stored));
        target[i] = convert(value);
    }
}

} // namespace

void dequantize(DType type, const std::byte *source, float *target, std::int64_t elements)
{
    const auto *bytes = reinterpret_cast<const std::uint8_t *>(source);
    const std::size_t size = rowBytes(type, elements); // checks the precondition
    switch (type) {
    case DType::F32:
        if (size > 0)
            std::memcpy(target, bytes, size);
        return;
    case DType::F16:
        return convertRow<std::uint16_t>(bytes, target, elements, halfToFloat);
    case DType::BF16:
        return convertRow<std::uint16_t>(bytes, target, elements, bf16ToFloat);
    case DType::E4M3:
        return convertRow<std::uint8_t>(bytes, target, elements, [](std::uint8_t value) { return e4m3Numbers[value]; });
    case DType::F64:
        return convertRow<double>(bytes, target, elements, [](double value) { return static_cast<float>(value); });
    case DType::Q4_0:
        return expandRow<expandQ4_0>(type, bytes, target, elements);
    case DType::Q4_1:
        return expandRow<expandQ4_1>(type, bytes, target, elements);
    case DType::Q5_0:
        return expandRow<expandQ5_0>(type, bytes, target, elements);
    case DType::Q5_1:
        return expandRow<expandQ5_1>(type, bytes, target, elements);
    case DType::Q8_0:
        return expandRow<expandQ8_0>(type, bytes, target, elements);
    case DType::Q2_K:
        return expandRow<blocks::expandQ2_K>(type, bytes, target, elements);
    case DType::Q3_K:
        return expandRow<blocks::expandQ3_K>(type, bytes, target, elements);
    case DType::Q4_K:
        return expandRow<blocks::expandQ4_K>(type, bytes, target, elements);
    case DType::Q5_K:
        return expandRow<blocks::expandQ5_K>(type, bytes, target, elements);
    case DType::Q6_K:
        return expandRow<blocks::expandQ6_K>(type, bytes, target, elements);
    case DType::IQ4_NL:
        return expandRow<expandIQ4_NL>(type, bytes, target, elements);
    case DType::IQ4_XS:
        return expandRow<blocks::expandIQ4_XS>(type, bytes, target, elements);
    case DType::MXFP4:
        return expandRow<expandMXFP4>(type, bytes, target, elements);
    case DType::IQ1_S:
    case DType::IQ1_M:
    case DType::IQ2_XXS:
    case DType::IQ2_XS:
    case DType::IQ2_S:
    case DType::IQ3_XXS:
    case DType::IQ3_S:
    case DType::TQ1_0:
    case DType::TQ2_0:
    case DType::NVFP4:
        return expandIntegerBlocks(type, bytes, target, elements);
    case DType::INT2:
    case DType::INT3:
    case DType::INT4:
    case DType::INT8:
    case DType::W8A8:
        return expandGroupBlocks(type, bytes, target, elements);
    case DType::INT8Z:
    case DType::FP8:
    case DType::FP8_E5M2:
    case DType::NF4:
    case DType::NF4_F16:
    case DType::NF4_BF16:
    case DType::FP4:
    case DType::FP4_F16:
    case DType::FP4_BF16:
        return expandFloatBlocks(type, bytes, target, elements);
    case DType::I8:
    case DType::I16:
    case DType::I32:
    case DType::I64:
        break;
    }
    throw Error(ErrorCode::Internal,
                "dequantize: type " + std::string(info(type).name)
                    + " holds integers, wanted a float or quantized type");
}

} // namespace kernels
