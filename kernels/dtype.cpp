// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/dtype.h"

#include "kernels/error.h"

#include <array>
#include <bit>
#include <cstddef>
#include <utility>

namespace kernels {

namespace {

constexpr std::array<DTypeInfo, 46> types = {{
    {"F32", 1, 4, false},       {"F16", 1, 2, false},       {"BF16", 1, 2, false},      {"F64", 1, 8, false},
    {"I8", 1, 1, false},        {"I16", 1, 2, false},       {"I32", 1, 4, false},       {"I64", 1, 8, false},
    {"Q4_0", 32, 18, true},     {"Q4_1", 32, 20, true},     {"Q5_0", 32, 22, true},     {"Q5_1", 32, 24, true},
    {"Q8_0", 32, 34, true},     {"Q2_K", 256, 84, true},    {"Q3_K", 256, 110, true},   {"Q4_K", 256, 144, true},
    {"Q5_K", 256, 176, true},   {"Q6_K", 256, 210, true},   {"IQ4_NL", 32, 18, true},   {"IQ4_XS", 256, 136, true},
    {"MXFP4", 32, 17, true},    {"IQ1_S", 256, 50, true},   {"IQ1_M", 256, 56, true},   {"IQ2_XXS", 256, 66, true},
    {"IQ2_XS", 256, 74, true},  {"IQ2_S", 256, 82, true},   {"IQ3_XXS", 256, 98, true}, {"IQ3_S", 256, 110, true},
    {"TQ1_0", 256, 54, true},   {"TQ2_0", 256, 66, true},   {"NVFP4", 64, 36, true},    {"INT2", 32, 13, true},
    {"INT3", 32, 17, true},     {"INT4", 32, 21, true},     {"INT8", 32, 36, true},     {"W8A8", 32, 36, true},
    {"INT8Z", 32, 38, true},    {"FP8", 32, 36, true},      {"FP8_E5M2", 32, 36, true}, {"NF4", 32, 20, true},
    {"NF4_F16", 32, 20, true},  {"NF4_BF16", 32, 20, true}, {"FP4", 32, 20, true},      {"FP4_F16", 32, 20, true},
    {"FP4_BF16", 32, 20, true}, {"E4M3", 1, 1, false},
}};
static_assert(types.size() == static_cast<std::size_t>(DType::E4M3) + 1);

} // namespace

const DTypeInfo &info(DType type)
{
    const auto index = static_cast<std::size_t>(type);
    CHECK(index < types.size());
    return types[index];
}

std::size_t rowBytes(DType type, std::int64_t elements)
{
    const DTypeInfo &layout = info(type);
    CHECK(elements >= 0 && elements % layout.blockElements == 0);
    return static_cast<std::size_t>(elements / layout.blockElements) * static_cast<std::size_t>(layout.blockBytes);
}

float halfToFloat(std::uint16_t half)
{
    const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
    const std::uint32_t exponent = half & 0x7c00U;
    const std::uint32_t rest = half & 0x7fffU;
    if (exponent == 0) // subnormals count steps of 2^-24; 0.5 has exactly that spacing
        return std::bit_cast<float>(std::bit_cast<std::uint32_t>(std::bit_cast<float>(0x3f000000U | rest) - 0.5F)
                                    | sign);
    if (exponent == 0x7c00U)
        return std::bit_cast<float>(sign | 0x7f800000U | ((rest & 0x3ffU) << 13));
    return std::bit_cast<float>(sign | ((rest << 13) + (112U << 23)));
}

std::uint16_t floatToHalf(float value)
{
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000U;
    std::uint32_t rest = bits & 0x7fffffffU;
    if (rest > 0x7f800000U) // NaN stays NaN: quiet, upper payload bits kept
        return static_cast<std::uint16_t>(sign | 0x7e00U | ((rest >> 13) & 0x1ffU));
    if (rest >= 0x477ff000U) // 65520, the middle between the largest half and 2^16
        return static_cast<std::uint16_t>(sign | 0x7c00U);
    if (rest < 0x38800000U) // below 2^-14: let the adder round to steps of 2^-24
        return static_cast<std::uint16_t>(
            sign | (std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest) + 0.5F) - 0x3f000000U));
    rest += 0xfffU + ((rest >> 13) & 1U);
    return static_cast<std::uint16_t>(sign | ((rest - (112U << 23)) >> 13));
}

float bf16ToFloat(std::uint16_t value)
{
    return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

std::uint16_t floatToBf16(float value)
{
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U)
        return static_cast<std::uint16_t>((bits >> 16) | 0x40U); // quiet NaN
    return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

} // namespace kernels
