// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/dtype.h"

#include <cstddef>
#include <cstring>

/// How blocks of a file are split for the device: the numbers of all blocks into one plane, so that they are aligned,
/// and what is left of them, scales and the like, into another.
namespace kernels::cuda {

/// Of one block. Bytes [bodyOffset, bodyOffset + bodyBytes) of the file's block are its body, all others, in their
/// order, its head. Bodies are multiples of 8 bytes.
struct BlockPlanes {
    int elements = 0;
    int headBytes = 0;
    int bodyBytes = 0;
    int bodyOffset = 0;
};

/// Plain floats are "blocks" of 32. Zeros for a type that the device does not compute with.
[[nodiscard]] constexpr BlockPlanes planesOf(DType type)
{
    switch (type) {
    case DType::F32:
        return {32, 0, 128, 0};
    case DType::F16:
    case DType::BF16:
        return {32, 0, 64, 0};
    case DType::Q4_0:
    case DType::IQ4_NL:
        return {32, 2, 16, 2};
    case DType::Q4_1:
        return {32, 4, 16, 4};
    case DType::Q5_0:
        return {32, 6, 16, 6};
    case DType::Q5_1:
        return {32, 8, 16, 8};
    case DType::Q8_0:
        return {32, 2, 32, 2};
    case DType::Q2_K:
        return {256, 20, 64, 16};
    case DType::Q3_K:
        return {256, 14, 96, 0};
    case DType::Q4_K:
        return {256, 16, 128, 16};
    case DType::Q5_K:
        return {256, 16, 160, 16};
    case DType::Q6_K:
        return {256, 18, 192, 0};
    case DType::IQ4_XS:
        return {256, 8, 128, 8};
    case DType::MXFP4:
        return {32, 1, 16, 1};
    case DType::INT2:
        return {32, 5, 8, 5};
    case DType::INT3:
        return {32, 9, 8, 5};
    case DType::INT4:
        return {32, 5, 16, 5};
    case DType::INT8:
    case DType::FP8:
    case DType::FP8_E5M2:
        return {32, 4, 32, 4};
    case DType::INT8Z:
        return {32, 6, 32, 6};
    case DType::NF4:
    case DType::NF4_F16:
    case DType::NF4_BF16:
    case DType::FP4:
    case DType::FP4_F16:
    case DType::FP4_BF16:
        return {32, 4, 16, 4};
    default:
        return {};
    }
}

/// Writes head and body of one block of the file.
inline void splitBlock(const BlockPlanes &planes, const std::byte *block, std::byte *head, std::byte *body)
{
    const auto before = static_cast<std::size_t>(planes.bodyOffset);
    const auto numbers = static_cast<std::size_t>(planes.bodyBytes);
    const auto after = static_cast<std::size_t>(planes.headBytes - planes.bodyOffset);
    std::memcpy(body, block + before, numbers);
    if (before > 0)
        std::memcpy(head, block, before);
    if (after > 0)
        std::memcpy(head + before, block + before + numbers, after);
}

} // namespace kernels::cuda
