// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/core/json.h"

#include <optional>
#include <string>
#include <string_view>

namespace engine {

/// As parseJson, but an integer that 64 bits do not hold keeps its digits (see bigInteger), where parseJson makes a
/// float of it. For values that are only read: such a number cannot be dumped.
[[nodiscard]] Json parseJsonExact(std::string_view text, std::string_view what, int maxDepth = 64);

/// The digits, with a sign where negative, of an integer that parseJsonExact kept.
[[nodiscard]] std::optional<std::string> bigInteger(const Json &value);

} // namespace engine
