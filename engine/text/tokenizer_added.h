// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/normalizer.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

/// A token that is found in text as it is written, before anything is cut.
struct AddedToken {
    std::string content;
    int id = 0;
    bool special = false;    ///< a control token: only read in text when that is asked for
    bool normalized = false; ///< searched in the text after normalization
    bool lstrip = false;     ///< takes white space before it along
    bool rstrip = false;     ///< takes white space behind it along
    bool singleWord = false; ///< not where a word character stands before or behind it
};

/// A part of a text: plain (id -1) or one added token.
struct TextPart {
    std::string_view text;
    int id = -1;
};

/// Finds added tokens, the longest one at the leftmost place, with one trie. Immutable; any thread. Time is linear
/// in the text times the longest token at worst.
class AddedTokens {
public:
    static constexpr std::size_t longest = 1024; ///< bytes of one token

    AddedTokens() = default;
    /// Keeps the tokens of `tokens` whose `normalized` is as given; empty ones are ignored.
    /// \throws Error Refused for a token longer than `longest`
    AddedTokens(const std::vector<AddedToken> &tokens, bool normalized, const Normalizer &normalizer);

    [[nodiscard]] bool empty() const { return m_tokens.empty(); }
    /// Cuts `text`; special tokens stay text unless `parseSpecial`. A token in the white space that the one before took
    /// along is found all the same, unless it takes white space before it, and what stands behind it is cut anew.
    [[nodiscard]] std::vector<TextPart> split(std::string_view text, bool parseSpecial) const;

private:
    struct Node {
        std::int32_t child = -1;   ///< first child
        std::int32_t sibling = -1; ///< next child of the parent
        std::int32_t token = -1;   ///< index of the token that ends here
        char byte = 0;
    };
    struct Found {
        std::int32_t token = -1;
        std::size_t end = 0;
    };

    void insert(std::string_view content, std::int32_t token);
    [[nodiscard]] std::int32_t childOf(std::int32_t node, char byte) const;
    [[nodiscard]] Found longestAt(std::string_view text, std::size_t position) const;

    std::vector<AddedToken> m_tokens;
    std::vector<Node> m_nodes;
    std::array<std::int32_t, 256> m_roots{}; ///< by first byte, -1 = none
};

} // namespace engine
