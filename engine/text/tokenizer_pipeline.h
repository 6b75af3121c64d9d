// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/bpe.h"
#include "engine/text/normalizer.h"
#include "engine/text/pretokenizer.h"
#include "engine/text/token_decoder.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_added.h"
#include "engine/text/unigram.h"
#include "engine/text/word_level.h"
#include "engine/text/word_piece.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

/// Everything a tokenizer consists of, whatever file it came from.
struct TokenizerParts {
    TokenTable tokens; ///< model vocabulary and added tokens
    std::vector<BpeMerge> merges;
    BpeOptions bpe;
    std::optional<UnigramOptions> unigram; ///< given, as one of the next two: in place of BPE
    std::optional<WordPieceOptions> wordPiece;
    std::optional<WordLevelOptions> wordLevel;
    Normalizer normalizer;
    PreTokenizer preTokenizer;
    std::vector<AddedToken> added;
    bool addedAreVerbatim = false; ///< added tokens stand for their spelling, whatever the decoder does
    TokenDecoder decoder;
    std::vector<int> prefix; ///< ids that addSpecial puts before the text
    std::vector<int> suffix; ///< and behind it
    std::optional<int> bos, eos;
    std::vector<int> endOfGeneration;
};

/// \pre every id in `parts` has a spelling in parts.tokens
[[nodiscard]] std::unique_ptr<Tokenizer> makePipelineTokenizer(TokenizerParts parts);

/// Added control tokens whose text is a well-known end of an answer, such as <|im_end|>.
[[nodiscard]] std::vector<int> knownEndTokens(const std::vector<AddedToken> &added);

} // namespace engine
