// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/gguf_types.h"

#include <array>
#include <span>
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
    {16, computable("IQ2_XXS", 256, 66, DType::IQ2_XXS)},
    {17, computable("IQ2_XS", 256, 74, DType::IQ2_XS)},
    {18, computable("IQ3_XXS", 256, 98, DType::IQ3_XXS)},
    {19, computable("IQ1_S", 256, 50, DType::IQ1_S)},
    {20, computable("IQ4_NL", 32, 18, DType::IQ4_NL)},
    {21, computable("IQ3_S", 256, 110, DType::IQ3_S)},
    {22, computable("IQ2_S", 256, 82, DType::IQ2_S)},
    {23, computable("IQ4_XS", 256, 136, DType::IQ4_XS)},
    {24, computable("I8", 1, 1, DType::I8)},
    {25, computable("I16", 1, 2, DType::I16)},
    {26, computable("I32", 1, 4, DType::I32)},
    {27, computable("I64", 1, 8, DType::I64)},
    {28, computable("F64", 1, 8, DType::F64)},
    {29, computable("IQ1_M", 256, 56, DType::IQ1_M)},
    {30, computable("BF16", 1, 2, DType::BF16)},
    {34, computable("TQ1_0", 256, 54, DType::TQ1_0)},
    {35, computable("TQ2_0", 256, 66, DType::TQ2_0)},
    {39, computable("MXFP4", 32, 17, DType::MXFP4)},
    {40, computable("NVFP4", 64, 36, DType::NVFP4)},
    {41, listed("Q1_0", 128, 0)},
    {42, listed("Q2_0", 64, 0)},
}};

// Source: ggml's type table before these were removed; numbers of ikawrakow/ik_llama.cpp.
constexpr std::array<std::pair<std::uint32_t, std::string_view>, 8> removedTypes = {{
    {4, "Q4_2"},
    {5, "Q4_3"},
    {31, "Q4_0_4_4"},
    {32, "Q4_0_4_8"},
    {33, "Q4_0_8_8"},
    {36, "IQ4_NL_4_4"},
    {37, "IQ4_NL_4_8"},
    {38, "IQ4_NL_8_8"},
}};
constexpr std::array<std::pair<std::uint32_t, std::string_view>, 24> forkTypes = {{
    {97, "Q8_0_X4"}, {98, "Q8_1_X4"}, {99, "Q8_2_X4"},  {133, "Q6_0"},   {134, "IQ1_BN"}, {135, "IQ2_BN"},
    {136, "Q8_K64"}, {137, "IQ2_K"},  {138, "IQ3_K"},   {139, "IQ4_K"},  {140, "IQ5_K"},  {141, "IQ6_K"},
    {144, "IQ4_KS"}, {145, "IQ2_KS"}, {146, "IQ4_KSS"}, {148, "Q8_K32"}, {151, "Q8_KV"},  {152, "IQ5_KS"},
    {153, "IQ2_KT"}, {154, "IQ3_KT"}, {155, "IQ4_KT"},  {156, "IQ3_KS"}, {157, "IQ2_KL"}, {158, "IQ1_KT"},
}};
constexpr std::uint32_t firstInterleaved = 202; // the fork's types with rows side by side
constexpr std::uint32_t lastInterleaved = 399;

std::string_view nameIn(std::span<const std::pair<std::uint32_t, std::string_view>> list, std::uint32_t id)
{
    for (const auto &[number, name] : list) {
        if (number == id)
            return name;
    }
    return {};
}

} // namespace

std::optional<std::uint32_t> ggufTypeNumber(kernels::DType type)
{
    for (const auto &[number, stored] : tensorTypes) {
        if (stored.dtype == type)
            return number;
    }
    return std::nullopt;
}

std::string foreignTensorType(std::uint32_t id)
{
    if (const std::string_view name = nameIn(removedTypes, id); !name.empty())
        return std::string(name) + ", which was removed from the format" + (id == 36 ? " (I2_S in forks)" : "");
    if (const std::string_view name = nameIn(forkTypes, id); !name.empty())
        return std::string(name) + " of the fork ik_llama.cpp";
    if (id >= 133 && id <= 158)
        return "a type of the fork ik_llama.cpp";
    if (id >= firstInterleaved && id <= lastInterleaved)
        return "an interleaved type of the fork ik_llama.cpp";
    return "unknown; it may belong to a fork or to a newer version";
}

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
