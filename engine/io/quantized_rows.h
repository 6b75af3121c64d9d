// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/dtype.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace engine {

/// Rows that a reader of numbers hands over at once.
constexpr int numberRows = 16;
/// Columns of a block, which has one scale.
constexpr std::int64_t blockColumns = 32;

/// A matrix as numbers of at most 8 bits with scales and zeros, however a file packs them.
struct NumberMatrix {
    std::int64_t rows = 0;
    std::int64_t columns = 0; ///< a multiple of 32
    /// Stored numbers of rows [first, first + count) to target [count, columns]; count is at most numberRows.
    std::function<void(std::int64_t first, int count, std::uint8_t *target)> numbers;
    std::function<float(std::int64_t row, std::int64_t group)> scale;
    std::function<int(std::int64_t row, std::int64_t group)> zero; ///< empty for types without one
    std::vector<std::int32_t> groups;                              ///< of every block of 32 columns, in their order
    std::vector<std::int32_t> columnOrder;                         ///< column k of the result; empty = k
};

/// The matrix as rows of blocks. Types: Q4_0 (zero 8), INT2, INT3, INT4; Q8_0, INT8 and W8A8 (zero 128), INT8Z; FP8
/// of both kinds; NF4 and FP4 in their three forms.
[[nodiscard]] std::vector<std::byte> makeRows(const NumberMatrix &matrix, kernels::DType type);

} // namespace engine
