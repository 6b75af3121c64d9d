// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_pipeline.h"

#include <vector>

/// How the vocabulary of a GGUF file becomes a tokenizer.
namespace engine {

// Values of tokenizer.ggml.model.
constexpr const char *ggufByteLevel = "gpt2";
constexpr const char *ggufSentencePiece = "llama";
constexpr const char *ggufUnigram = "t5";

/// \throws Error Refused for a merge of parts that are no tokens
void addGgufMerges(const VocabularyData &data, TokenizerParts &parts);
/// Which tokens text may become, by score; the others are only found when they are searched for.
[[nodiscard]] std::vector<float> ggufMergingScores(const VocabularyData &data, const TokenTable &tokens);
/// Fills `parts` by `data.steps`. \throws Error Refused naming the key and the fault
void setByGgufSteps(const VocabularyData &data, TokenizerParts &parts);

} // namespace engine
