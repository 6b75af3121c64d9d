// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <string_view>

namespace engine {

/// What is done to text before it is cut.
enum class Normalization { None, Nfc };

/// Normal form of valid UTF-8; `storage` holds the result where it differs. Time is linear.
[[nodiscard]] std::string_view normalized(std::string_view text, Normalization form, std::string &storage);

} // namespace engine
