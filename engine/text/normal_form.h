// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <string_view>

namespace engine {

/// Unicode normalization forms (Unicode Standard Annex 15).
enum class NormalForm { Nfc, Nfd, Nfkc, Nfkd };

/// Appends the form of valid UTF-8 to `out`; false, leaving it alone, for text that is ASCII and so every form of
/// itself. Time is linear but for runs of combining marks, which are sorted.
[[nodiscard]] bool appendNormalForm(std::string_view text, NormalForm form, std::string &out);

} // namespace engine
