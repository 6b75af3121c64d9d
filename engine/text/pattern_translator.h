// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <string_view>

namespace engine {

/// An Oniguruma pattern in Ruby's syntax, which tokenizer files are written for, as a PCRE2 pattern for UTF-8 that
/// matches the same: classes, sets within sets and their intersections, options, quantifiers and escapes differ.
/// `newer`: with the characters that Unicode 16 has and PCRE2 may not know.
/// \throws Error Refused showing the pattern and what of it has no counterpart; other faults are left for PCRE2 to find
[[nodiscard]] std::string pcrePattern(std::string_view pattern, bool newer);

} // namespace engine
