// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/bpe_tokens.h"
#include "engine/text/byte_trie.h"
#include "engine/text/word_model.h"

#include <string>
#include <vector>

namespace engine {

struct WordPieceOptions {
    std::string unknown;             ///< spelling of the token for words that cannot be put together
    std::string continuation = "##"; ///< stands before parts that do not begin a word
    std::size_t longestWord = 100;   ///< characters; longer words are unknown
    std::vector<bool> outsideModel;  ///< by id: tokens that are no parts of words; shorter than the table or empty
};

/// Words put together from the longest parts, from left to right; unknown as a whole when that fails. Immutable; any
/// thread. Time is linear in the word, for tokens of bounded length. Source: huggingface/tokenizers, models/wordpiece.
class WordPiece final : public WordModel {
public:
    /// `tokens` is not kept.
    WordPiece(const TokenTable &tokens, WordPieceOptions options);

private:
    void encodeWord(std::string_view word, std::vector<int> &ids) const override;
    [[nodiscard]] bool appendParts(std::string_view word, std::vector<int> &ids) const;

    WordPieceOptions m_options;
    int m_unknown = -1;
    ByteTrie m_first; ///< parts that begin a word
    ByteTrie m_later; ///< the others, without what stands before them
};

} // namespace engine
