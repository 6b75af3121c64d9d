// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace engine {

/// True when `text` is well-formed UTF-8.
[[nodiscard]] bool isUtf8(std::string_view text);

/// `text` with every ill-formed byte sequence replaced by U+FFFD.
[[nodiscard]] std::string repairUtf8(std::string_view text);

/// `text` fit for one line of an error or log: ill-formed bytes become U+FFFD, control characters, line separators and
/// direction marks become escapes such as \n or \u{202e}; cut with an ellipsis after about `maxBytes` bytes.
[[nodiscard]] std::string printable(std::string_view text, std::size_t maxBytes = 200);

/// printable() between double quotes.
[[nodiscard]] std::string inQuotes(std::string_view text, std::size_t maxBytes = 200);

} // namespace engine
