// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/gguf_types.h"

#include <array>
#include <utility>

namespace engine {

namespace {

using kernels::DType;

constexpr std::array<std::string_view, 13> valueTypeNames = {"uint8",  "int8",    "uint16", "int16",  "uint32",
                                                             "int32",  "float32", "bool",   "string", "array",
                                                             "uint64", "int64",   "float64"};
constexpr std::array<int, 13> valueTypeBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

constexpr GgufTensorType computable(std::string_view name, int elements, int bytes, DType dtype)
{
    return {name, elements, bytes, dtype};
}

constexpr GgufTensorType listed(std::string_view name, int elements, int bytes)
{
    return {name, elements, bytes, std::nullopt};
}

constexpr std::array<std::pair<std::uint32_t, GgufTensorType>, 35> tensorTypes = {{
    {0, computable("F32", 1, 4, DType::F32)},
    {1, computable("F16", 1, 2, DType::F16)},
    {2, computable("Q4_0", 32, 18, DType::Q4_0)},
    {3, computable("Q4_1", 32, 20, DType::Q4_1)},
    {6, computable("Q5_0", 32, 22, DType::Q5_0)},
    {7, computable("Q5_1", 32, 24, DType::Q5_1)},
    {8, computable("Q8_0", 32, 34, DType::Q8_0)},
    {9, listed("Q8_1", 32, 36)},
    {10, computable("Q2_K", 256, 84, DType::Q2_K)},
    {11, computable("Q3_K", 256, 110, DType::Q3_K)},
    {12, computable("Q4_K", 256, 144, DType::Q4_K)},
    {13, computable("Q5_K", 256, 176, DType::Q5_K)},
    {14, computable("Q6_K", 256, 210, DType::Q6_K)},
    {15, listed("Q8_K", 256, 292)},
    {16, listed("IQ2_XXS", 256, 66)},
    {17, listed("IQ2_XS", 256, 74)},
    {18, listed("IQ3_XXS", 256, 98)},
    {19, listed("IQ1_S", 256, 50)},
    {20, computable("IQ4_NL", 32, 18, DType::IQ4_NL)},
    {21, listed("IQ3_S", 256, 110)},
    {22, listed("IQ2_S", 256, 82)},
    {23, computable("IQ4_XS", 256, 136, DType::IQ4_XS)},
    {24, computable("I8", 1, 1, DType::I8)},
    {25, computable("I16", 1, 2, DType::I16)},
    {26, computable("I32", 1, 4, DType::I32)},
    {27, computable("I64", 1, 8, DType::I64)},
    {28, computable("F64", 1, 8, DType::F64)},
    {29, listed("IQ1_M", 256, 56)},
    {30, computable("BF16", 1, 2, DType::BF16)},
    {34, listed("TQ1_0", 256, 54)},
    {35, listed("TQ2_0", 256, 66)},
    {39, computable("MXFP4", 32, 17, DType::MXFP4)},
    {40, listed("NVFP4", 64, 36)},
    {41, listed("Q1_0", 128, 0)},
    {42, listed("Q2_0", 64, 0)},
}};

} // namespace

std::string_view ggufValueTypeName(std::uint32_t id)
{
    return id < valueTypeNames.size() ? valueTypeNames[id] : std::string_view();
}

int ggufValueBytes(GgufValueType type)
{
    return valueTypeBytes.at(static_cast<std::size_t>(type));
}

const GgufTensorType *findGgufTensorType(std::uint32_t id)
{
    for (const auto &[number, type] : tensorTypes) {
        if (number == id)
            return &type;
    }
    return nullptr;
}

} // namespace engine
