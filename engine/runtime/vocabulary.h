// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/io/checkpoint.h"
#include "engine/text/tokenizer.h"

#include <string>
#include <vector>

namespace engine {

/// The vocabulary that a GGUF file's `tokenizer.ggml.*` keys describe, every count, type and id checked against each
/// other and against the rows of `token_embd.weight` where that is present; whether its kind of tokenizer is supported
/// is for makeTokenizer to say. Special ids outside the vocabulary are refused.
/// \throws Error Refused naming key and fault
[[nodiscard]] VocabularyData readVocabulary(const Checkpoint &checkpoint);
/// The ids of `tokenizer.ggml.eos_token_ids`, which end an answer; whether they exist is for the caller to see.
[[nodiscard]] std::vector<int> readEnds(const Metadata &metadata);
/// Whether llama.cpp takes a model of that name for a Phi-3, whose tokens drop the white space behind them.
[[nodiscard]] bool isNamedPhi3(std::string name);

} // namespace engine
