// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// Sets of characters exactly as tokenizer files mean them, whose library takes each from another version of Unicode.
/// Any thread.
namespace engine::unicode_sets {

[[nodiscard]] bool isPunctuation(char32_t code);    ///< with the symbols of ASCII
[[nodiscard]] bool isNumeric(char32_t code);        ///< digits, letters and signs that are numbers
[[nodiscard]] bool isWordCharacter(char32_t code);  ///< letters, marks, decimal digits, connectors, joiners
[[nodiscard]] bool isCombiningMark(char32_t code);  ///< what StripAccents drops
[[nodiscard]] bool isNonspacingMark(char32_t code); ///< what BERT's normalizer drops as accents
[[nodiscard]] bool isOther(char32_t code);          ///< what BERT's normalizer drops as no text

} // namespace engine::unicode_sets
