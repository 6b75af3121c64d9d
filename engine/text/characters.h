// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>

namespace engine::characters {

[[nodiscard]] bool isWhiteSpace(char32_t code); ///< property White_Space
[[nodiscard]] bool isChinese(char32_t code);    ///< ideographs of the blocks that BERT's normalizer names
void appendLowercase(std::string &text, char32_t code);

} // namespace engine::characters
