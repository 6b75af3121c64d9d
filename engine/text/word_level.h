// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/bpe_tokens.h"
#include "engine/text/word_model.h"

#include <string>
#include <vector>

namespace engine {

struct WordLevelOptions {
    std::string unknown;            ///< spelling of the token for words that the vocabulary lacks
    std::vector<bool> outsideModel; ///< by id: tokens that are no words; shorter than the table or empty
};

/// One token for each word. Immutable; any thread.
class WordLevel final : public WordModel {
public:
    /// `tokens` stays the caller's and must outlive this.
    WordLevel(const TokenTable &tokens, WordLevelOptions options);

private:
    void encodeWord(std::string_view word, std::vector<int> &ids) const override;
    [[nodiscard]] int find(std::string_view word) const;

    const TokenTable &m_tokens;
    WordLevelOptions m_options;
    int m_unknown = -1;
};

} // namespace engine
