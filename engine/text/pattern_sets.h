// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Sets of characters of an Oniguruma pattern as parts of a PCRE2 pattern. `newer`: with the characters that Unicode 16
/// has and PCRE2 may not know.
namespace engine::pattern_sets {

/// Characters of which some stand between [ and ] and the others match what stands in `atoms`, each for one character.
struct Set {
    std::string members;
    std::vector<std::string> atoms;

    void add(const Set &other);
    void addCharacter(char32_t code);
    void addRange(char32_t first, char32_t last);
};

[[nodiscard]] std::string atomOf(const Set &set);       ///< a pattern for one character of the set
[[nodiscard]] std::string complementOf(const Set &set); ///< a pattern for one character outside
[[nodiscard]] std::string literal(char32_t code);       ///< a pattern for that character

/// What \w, \d, \s and \h stand for, `inside` a set or by themselves; `letter` in lower case. \pre `letter` is one of
/// them
[[nodiscard]] Set ofEscape(char letter, bool inside, bool newer);
/// What [:name:] stands for; an empty set when there is no such name.
[[nodiscard]] Set ofBracket(std::string_view name, bool newer);
/// What \p{name} stands for. A name that is not known is left to PCRE2.
[[nodiscard]] Set ofProperty(std::string_view name, bool newer);
/// A pattern for the place between a word character and another or none, or for any other place.
[[nodiscard]] std::string wordBoundary(bool negated, bool newer);

} // namespace engine::pattern_sets
