// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/utf8.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace engine {

/// What one thread needs to run patterns; made per call, cheap.
class RegexScratch {
public:
    RegexScratch();
    ~RegexScratch();
    RegexScratch(const RegexScratch &) = delete;
    RegexScratch &operator=(const RegexScratch &) = delete;

    /// To be called with every text before its parts are searched; allows time for it.
    void prepare(std::string_view text);

private:
    friend class Regex;
    struct State;
    std::unique_ptr<State> m_state;
};

/// One pattern of a pre-tokenizer, compiled by PCRE2 for UTF-8 with Unicode properties. Immutable; any thread.
/// Patterns are Oniguruma's in Ruby's syntax, which tokenizer files are written for: see pattern_translator.h; ^ and $
/// match at line ends. Properties are those of Unicode 16, whatever PCRE2 knows.
class Regex {
public:
    struct Match {
        std::size_t begin = 0;
        std::size_t end = 0;
    };

    /// `literal`: the pattern is plain text. \throws Error Refused showing pattern and fault
    explicit Regex(std::string_view pattern, bool literal = false);
    ~Regex();
    Regex(Regex &&) noexcept;
    Regex &operator=(Regex &&) noexcept;

    /// The first match that begins at `from` or later. A match that needs more steps, stack or memory than the
    /// limits allow, or comes after the whole text's time is spent, counts as no match: text of a user is never an
    /// error. \pre `text` is valid UTF-8
    [[nodiscard]] std::optional<Match> find(std::string_view text, std::size_t from, RegexScratch &scratch) const;

private:
    struct Code;
    std::unique_ptr<Code> m_code;
};

/// Calls `use` with every match of `regex` in `text`, in order: an empty match moves on by a character, and is none
/// right behind another match. Empty text has none.
template<typename Use>
void forEachMatch(const Regex &regex, std::string_view text, RegexScratch &scratch, const Use &use)
{
    std::optional<std::size_t> lastEnd;
    std::size_t from = 0;
    while (from <= text.size() && !text.empty()) {
        const auto match = regex.find(text, from, scratch);
        if (!match)
            break;
        const bool empty = match->begin == match->end;
        if (!empty || lastEnd != match->begin) {
            use(*match);
            lastEnd = match->end;
        }
        from = match->end;
        if (empty)
            from += from < text.size() ? static_cast<std::size_t>(utf8::decode(text, from).bytes) : 1;
    }
}

} // namespace engine
