// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/dtype.h"

#include <array>
#include <cstdint>

namespace kernels {

/// 32 consecutive weights as whole numbers: weight i is scales[i / 16] x numbers[i], rounded once.
struct IntegerBlock {
    alignas(8) std::array<std::int8_t, 32> numbers{};
    std::array<float, 2> scales{};
};

/// Reads 32 weights, the `part`-th of one block of the file.
using IntegerBlockReader = void (*)(const std::uint8_t *block, int part, IntegerBlock &target);

/// The reader of a codebook, ternary or NVFP4 type; null for the types that have planes of bits in common.
/// Source: ggml's block definitions.
[[nodiscard]] IntegerBlockReader integerBlockReader(DType type);

} // namespace kernels
