// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/core/json.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

/// The text of a tokenizer.json as data: the two large members apart and flat, the rest as a small tree.
struct TokenizerFile {
    struct VocabularyEntry {
        std::uint32_t begin = 0; ///< in `spellings`
        std::uint32_t bytes = 0;
        std::int64_t id = 0;
    };
    struct Merge {
        std::uint32_t begin = 0; ///< in `mergeParts`; left and right stand together
        std::uint32_t leftBytes = 0;
        std::uint32_t rightBytes = 0;
    };

    Json rest; ///< without model.vocab and model.merges
    std::string spellings;
    std::vector<VocabularyEntry> vocabulary; ///< in file order
    bool vocabularyIsList = false;           ///< [piece, score] pairs, ids in order: a Unigram model
    std::vector<double> scores;              ///< of such a list
    std::string listFault;                   ///< the first thing in the list that is no such pair
    bool hasVocabulary = false;
    std::string mergeParts;
    std::vector<Merge> merges;
    bool hasMerges = false;

    [[nodiscard]] std::string_view spelling(const VocabularyEntry &entry) const
    {
        return std::string_view(spellings).substr(entry.begin, entry.bytes);
    }
};

/// Reads the text without building a tree of the vocabulary, with limits on nesting and size.
/// \throws Error Refused naming the place and the fault
[[nodiscard]] TokenizerFile readTokenizerFile(std::string_view text);
/// A tokenizer_config.json without `added_tokens_decoder`, which repeats the tokenizer.json.
[[nodiscard]] Json readTokenizerConfig(std::string_view text);

} // namespace engine
