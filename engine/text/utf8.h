// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace engine::utf8 {

/// One decoded character. `valid` is false for a maximal invalid part, whose length is `bytes`.
struct Character {
    char32_t code = 0;
    int bytes = 1;
    bool valid = true;
    bool cut = false; ///< the text ends inside a character that was valid so far
};

/// The character at `position`. \pre position < text.size()
/// Source: Unicode Standard 15, table 3-7 and section 3.9 "Substitution of Maximal Subparts".
[[nodiscard]] Character decode(std::string_view text, std::size_t position);

[[nodiscard]] inline bool isAscii(char c)
{
    return static_cast<unsigned char>(c) < 0x80;
}
[[nodiscard]] bool isValid(std::string_view text);
/// Number of characters. \pre `text` is valid
[[nodiscard]] std::size_t length(std::string_view text);
void append(std::string &text, char32_t code);

/// `text` with U+FFFD for each maximal invalid part.
[[nodiscard]] std::string repaired(std::string_view text);
/// Moves what is complete from the front of `pending` to the result, invalid parts as U+FFFD; an unfinished
/// character at the end stays in `pending`.
[[nodiscard]] std::string takeComplete(std::string &pending);

/// `text` in double quotes for an error message: one line, valid UTF-8, at most about 80 bytes.
[[nodiscard]] std::string quoted(std::string_view text);

} // namespace engine::utf8
