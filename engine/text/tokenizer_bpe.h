// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/bpe.h"
#include "engine/text/pretokenizer.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_added.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

/// How a token's spelling becomes bytes.
enum class Spelling {
    Plain,     ///< it is the text
    ByteLevel, ///< by the byte-level table, a spelling outside the table standing for itself
};

/// Everything a BPE tokenizer consists of, whatever file it came from.
struct BpeTokenizerParts {
    TokenTable tokens; ///< model vocabulary and added tokens
    std::vector<BpeMerge> merges;
    BpeOptions model;
    Normalization normalization = Normalization::None;
    PreTokenizer preTokenizer;
    std::vector<AddedToken> added;
    bool addedAreVerbatim = false; ///< added tokens stand for their spelling, not for its byte-level reading
    Spelling spelling = Spelling::ByteLevel;
    std::vector<int> prefix; ///< ids that addSpecial puts before the text
    std::vector<int> suffix; ///< and behind it
    std::optional<int> bos, eos;
    std::vector<int> endOfGeneration;
};

/// \pre every id in `parts` has a spelling in parts.tokens
[[nodiscard]] std::unique_ptr<Tokenizer> makeBpeTokenizer(BpeTokenizerParts parts);

/// Added control tokens whose text is a well-known end of an answer, such as <|im_end|>.
[[nodiscard]] std::vector<int> knownEndTokens(const std::vector<AddedToken> &added);

} // namespace engine
