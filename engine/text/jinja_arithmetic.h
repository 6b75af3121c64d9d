// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/jinja_value.h"

#include <optional>

namespace engine::jinja {

enum class Operator : std::uint8_t { Add, Subtract, Multiply, Divide, FloorDivide, Modulo, Power };

/// a OP b with Python's rules: exact integers of any size, floor division, text and list concatenation and repetition,
/// printf-style formatting for text % values. \throws Fault
[[nodiscard]] Value arithmetic(Heap &heap, Operator op, const Value &a, const Value &b);
[[nodiscard]] Value negate(Heap &heap, const Value &value);

/// -1, 0 or 1; nothing when one is not a number (NaN). \pre both are numbers
[[nodiscard]] std::optional<int> compareNumbers(const Value &a, const Value &b);
[[nodiscard]] BigInt toBigInt(const Value &integer);
/// \throws Fault when an integer does not fit a double
[[nodiscard]] double toDouble(const Value &number);
/// The integer part. \throws Fault for NaN and infinity
[[nodiscard]] Value truncate(Heap &heap, double value);
/// An integer that does not fit 64 bits becomes the nearest one that does. \pre isInteger()
[[nodiscard]] std::int64_t clampToInt64(const Value &integer);
/// Decimal digits. \throws Fault beyond Python's limit of 4300 digits
[[nodiscard]] std::string digitsOf(Heap &heap, const Value &integer);

} // namespace engine::jinja
