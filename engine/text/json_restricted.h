// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/grammar.h"

#include <cstdint>
#include <string_view>

namespace engine {

inline constexpr std::int64_t mostInteger = 9'999'999'999'999'999; ///< of 16 digits, as all numbers here

/// Adds the whole numbers from `low` to `high` between two states. \pre -mostInteger <= low <= high <= mostInteger
void addIntegers(Grammar &grammar, int from, std::int64_t low, std::int64_t high, int to);

/// Adds the strings of a `format` of JSON schema, with their quotes, between two states: date, time, date-time, uuid,
/// ipv4 and email; some that are right are left out (29 February, leap seconds, quoted mailboxes), none that are wrong
/// are in. False when the format is not one of these. Source: RFC 3339, RFC 9562, RFC 2673, RFC 5321.
[[nodiscard]] bool addFormat(Grammar &grammar, int from, std::string_view format, int to);

} // namespace engine
