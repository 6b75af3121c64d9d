// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/grammar.h"

#include <cstdint>
#include <optional>

namespace engine {

inline constexpr std::int64_t mostInteger = 9'999'999'999'999'999; ///< of 16 digits, as all numbers here
inline constexpr std::int64_t mostFactor = 1000;                   ///< of multiples

/// Adds the whole numbers from `low` to `high` between two states. \pre -mostInteger <= low <= high <= mostInteger
void addIntegers(Grammar &grammar, int from, std::int64_t low, std::int64_t high, int to);

/// The same, but only those that are multiples of `factor`. False when there is none.
/// \pre 1 <= factor <= mostFactor
[[nodiscard]] bool addMultiples(Grammar &grammar, int from, std::int64_t low, std::int64_t high, std::int64_t factor,
                                int to);

/// One end of a range of numbers, as the shortest decimal that is read as this double.
struct NumberBound {
    double value = 0;
    bool exclusive = false;
};

/// Adds the decimals between two bounds, an absent one being 16 digits away; none has an exponent. False when there is
/// none. \pre bounds are at most mostInteger / 10 from 0
[[nodiscard]] bool addDecimals(Grammar &grammar, int from, std::optional<NumberBound> low,
                               std::optional<NumberBound> high, int to);

} // namespace engine
