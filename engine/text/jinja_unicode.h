// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

/// Characters of UTF-8 text as Python's str sees them. All text here is valid UTF-8; nothing throws.
namespace engine::jinja {

/// Byte offset of the first fault in `text`, or npos when it is valid UTF-8 without surrogates.
[[nodiscard]] std::size_t invalidUtf8(std::string_view text);

/// Decodes the character at `position` and moves behind it. \pre position < text.size()
[[nodiscard]] char32_t nextChar(std::string_view text, std::size_t &position);
/// Decodes the character that ends at `position` and moves before it. \pre position > 0
[[nodiscard]] char32_t previousChar(std::string_view text, std::size_t &position);
void appendChar(std::string &out, char32_t c);
[[nodiscard]] std::int64_t countChars(std::string_view text);
/// Byte offset of the character with this number. \pre index <= countChars(text)
[[nodiscard]] std::size_t byteOffset(std::string_view text, std::int64_t index);

/// First place of `needle` from `from` on, in time linear in both lengths whatever they hold.
[[nodiscard]] std::size_t findText(std::string_view text, std::string_view needle, std::size_t from = 0);

[[nodiscard]] bool isSpace(char32_t c);
[[nodiscard]] bool isLineEnd(char32_t c);
[[nodiscard]] bool isAlpha(char32_t c);
[[nodiscard]] bool isDecimal(char32_t c);
[[nodiscard]] bool isDigit(char32_t c);
[[nodiscard]] bool isNumeric(char32_t c);
[[nodiscard]] bool isWord(char32_t c); ///< \w of a regular expression
[[nodiscard]] bool isUpper(char32_t c);
[[nodiscard]] bool isLower(char32_t c);
[[nodiscard]] bool isTitle(char32_t c);
[[nodiscard]] bool isPrintable(char32_t c);
[[nodiscard]] bool isIdentifier(std::string_view text);
/// Value of a decimal digit, or -1.
[[nodiscard]] int digitValue(char32_t c);

[[nodiscard]] std::string toUpper(std::string_view text);
[[nodiscard]] std::string toLower(std::string_view text);
[[nodiscard]] std::string toTitle(std::string_view text);       ///< every word
[[nodiscard]] std::string toCapitalized(std::string_view text); ///< the first character
[[nodiscard]] std::string swapCase(std::string_view text);
[[nodiscard]] std::string caseFold(std::string_view text);

/// Without the spaces (or the characters of `chars`) at its ends.
enum class Ends { Left, Right, Both };
[[nodiscard]] std::string_view stripSpace(std::string_view text, Ends ends);
[[nodiscard]] std::string_view stripChars(std::string_view text, std::string_view chars, Ends ends);

} // namespace engine::jinja
