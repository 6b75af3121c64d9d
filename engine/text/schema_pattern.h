// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/text_language.h"

#include <string_view>

namespace engine {

/// The texts in which a regular expression of JSON schema is found, as ECMA-262 reads it with the flag u: anywhere
/// unless ^ and $ say otherwise. Lookaheads are read where they stand right at the beginning, beside ^. Not read, as
/// no machine without memory tells them or Unicode's tables would be needed: references back, other lookarounds, word
/// boundaries, \p, atomic and possessive parts, flags.
/// \throws Error Refused naming the part and its place
[[nodiscard]] TextLanguage patternLanguage(std::string_view pattern, TextBudget &budget);

} // namespace engine
