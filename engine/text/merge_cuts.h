// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/bpe_tokens.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace engine {

/// Places that no merge can cross: between two characters that are neighbours in no token. Cutting there changes no
/// result, and makes the words of a text that has no pre-tokenizer short enough to be met again. Immutable.
class MergeCuts {
public:
    /// `ids`: the tokens that merges make.
    MergeCuts(const TokenTable &tokens, const std::vector<int> &ids);

    /// Cuts every word begins[i]..ends[i] of `text`. \pre `text` is valid UTF-8
    void cut(std::string_view text, std::span<const std::uint32_t> begins, std::span<const std::uint32_t> ends,
             std::vector<std::uint32_t> &cutBegins, std::vector<std::uint32_t> &cutEnds) const;

private:
    [[nodiscard]] std::size_t slotOf(char32_t left, char32_t right) const;
    [[nodiscard]] bool joins(char32_t left, char32_t right) const;

    std::vector<std::uint64_t> m_bits; ///< a set of pairs that may hold more than it should
    std::size_t m_hashMask = 0;
};

} // namespace engine
