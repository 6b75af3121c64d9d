// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/bpe_tokens.h"
#include "engine/text/byte_trie.h"
#include "engine/text/word_model.h"

#include <array>
#include <vector>

namespace engine {

struct UnigramOptions {
    std::vector<double> scores;  ///< by id, log probabilities; the ids from 0 on that are words of the model. Minus
                                 ///< infinity: the token takes no part
    int unknown = -1;            ///< stands for what the vocabulary lacks; -1: such text is left out, or
    bool refusesUnknown = false; ///< refused
    bool byteFallback = false;   ///< or the tokens <0x00> to <0xFF> of its bytes, where all of them exist
};

/// The segmentation of a word with the highest sum of scores. Immutable; any thread. Time is linear in the word, for
/// tokens of bounded length. Source: Kudo 2018, arXiv:1804.10959, section 3.2; how unknown characters are scored and
/// joined follows huggingface/tokenizers, models/unigram.
class Unigram final : public WordModel {
public:
    static constexpr std::size_t longestToken = 1024; ///< bytes

    /// `tokens` stays the caller's and must outlive this. \throws Error Refused for a token longer than that
    Unigram(const TokenTable &tokens, UnigramOptions options);

private:
    void encodeWord(std::string_view word, std::vector<int> &ids) const override;
    void appendPart(std::string_view part, std::vector<int> &ids) const;

    const TokenTable &m_tokens;
    UnigramOptions m_options;
    ByteTrie m_trie;
    double m_unknownScore = 0;
    std::array<int, 256> m_byteIds{};
};

} // namespace engine
