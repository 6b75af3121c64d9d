// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kernels {

/// Element or block type of a tensor. Quantized types are stored as blocks along the fastest dimension.
/// Source of the block layouts: the GGUF specification and ggml's block structs; those behind NVFP4 are our own.
enum class DType : std::uint8_t {
    F32,
    F16,
    BF16,
    F64,
    I8,
    I16,
    I32,
    I64,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
    IQ4_NL,
    IQ4_XS,
    MXFP4,
    IQ1_S,
    IQ1_M,
    IQ2_XXS,
    IQ2_XS,
    IQ2_S,
    IQ3_XXS,
    IQ3_S,
    TQ1_0,
    TQ2_0,
    NVFP4,
    // Rows of quantised safetensors; every block of 32 has a float32 scale in front (kernels/README.md).
    INT2,
    INT3,
    INT4,
    INT8,
    W8A8, ///< INT8 whose activations the file wants rounded to int8 as well, by one scale for each row
    INT8Z,
    FP8,
    FP8_E5M2,
    NF4,
    NF4_F16,
    NF4_BF16,
    FP4,
    FP4_F16,
    FP4_BF16,
    E4M3, ///< one byte, of keys and values only (kv_layer.h)
};

/// Elements and bytes of one block; plain types have blockElements 1.
struct DTypeInfo {
    std::string_view name; ///< as GGUF tools spell it, for example "Q4_K"
    int blockElements = 1;
    int blockBytes = 0;
    bool quantized = false;
};

[[nodiscard]] const DTypeInfo &info(DType type);

/// Bytes of one row of `elements`. \pre elements is a multiple of the block size
[[nodiscard]] std::size_t rowBytes(DType type, std::int64_t elements);

/// Expands `elements` values of `type` at `source` to float32, bit for bit as the `gguf` package does
/// (no fused multiply-add). \pre elements is a multiple of the block size; `type` is a float or quantized type
void dequantize(DType type, const std::byte *source, float *target, std::int64_t elements);

[[nodiscard]] float halfToFloat(std::uint16_t half);
[[nodiscard]] std::uint16_t floatToHalf(float value); ///< round to nearest even
[[nodiscard]] float bf16ToFloat(std::uint16_t value);
[[nodiscard]] std::uint16_t floatToBf16(float value); ///< round to nearest even

} // namespace kernels
