// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/dtype.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace engine {

/// Type of a metadata value. Source: GGUF specification.
enum class GgufValueType : std::uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64 };

/// Name of a value type ("uint32"), or empty when `id` is none.
[[nodiscard]] std::string_view ggufValueTypeName(std::uint32_t id);
/// Bytes of one value of a fixed-size type; 0 for strings and arrays.
[[nodiscard]] int ggufValueBytes(GgufValueType type);

/// A tensor type by its number in the file.
struct GgufTensorType {
    std::string_view name;
    std::int64_t blockElements = 1;
    std::int64_t blockBytes = 0;         ///< 0: the layout is not known, only the name
    std::optional<kernels::DType> dtype; ///< absent when we cannot compute it
};

/// Null when the number is not known. Source of numbers and sizes: ggml's type table.
[[nodiscard]] const GgufTensorType *findGgufTensorType(std::uint32_t id);

/// The number of a type that GGUF can store; absent for other types.
[[nodiscard]] std::optional<std::uint32_t> ggufTypeNumber(kernels::DType type);

/// What a number that findGgufTensorType does not know once was, or is in a fork: "IQ4_K of the fork ik_llama.cpp".
[[nodiscard]] std::string foreignTensorType(std::uint32_t id);

} // namespace engine
