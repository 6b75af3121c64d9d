// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>

namespace engine::characters {

[[nodiscard]] bool isWhiteSpace(char32_t code);    ///< property White_Space
[[nodiscard]] bool isWordCharacter(char32_t code); ///< letters, marks, decimal digits, connectors, joiners
[[nodiscard]] bool isMark(char32_t code);          ///< categories Mn, Mc and Me
void appendLowercase(std::string &text, char32_t code);

} // namespace engine::characters
