// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/io/checkpoint.h"

#include <memory>
#include <string>
#include <vector>

namespace engine {

/// The model of a Hugging Face folder in the form that GGUF files have, for programs that know only that: rows of
/// queries and keys in the order of pairs (2i, 2i + 1) where the architecture rotates so, norm weights with their
/// offset added, experts of a layer in one tensor, rotary factors as tensors, the tokenizer's keys, types that GGUF
/// lacks as floats.
/// \throws Error Refused for what GGUF cannot hold
/// Source: ggml-org/llama.cpp, the conversion of each architecture.
[[nodiscard]] std::unique_ptr<Checkpoint> inGgufForm(std::unique_ptr<Checkpoint> folder);

/// The tokenizer keys of GGUF from tokenizer.json and tokenizer_config.json of `folder`; says in `warnings` what they
/// cannot hold. Nothing is added when there is no tokenizer.json. \throws Error Refused naming file and key
void addTokenizerKeys(const std::string &folder, Metadata &metadata, std::vector<std::string> &warnings);

} // namespace engine
