// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <string_view>

namespace engine::unicode_newer {

/// Whether valid UTF-8 holds a character that Unicode 15 or 16 added; the installed PCRE2 may know Unicode 14 only.
[[nodiscard]] bool occursIn(std::string_view text);
/// The added characters of a property such as "L" or "Lu", as ranges that may stand between [ and ]; empty when none.
[[nodiscard]] std::string ranges(std::string_view property);

} // namespace engine::unicode_newer
