// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

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
/// Classes follow Oniguruma, which tokenizer files are written for: \s is White_Space, \w letters, marks, decimal
/// digits and connectors, ^ and $ match at line ends. Properties are those of Unicode 16, whatever PCRE2 knows.
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

} // namespace engine
