// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/io/checkpoint.h"

#include <string>
#include <vector>

namespace engine {

/// What `model`, which is in GGUF's form, has and llama.cpp cannot load or computes otherwise; one sentence each. This
/// engine reads all of it. Source: ggml-org/llama.cpp b11434, src/models.
[[nodiscard]] std::vector<std::string> limitsOfOtherReaders(const Checkpoint &model);

} // namespace engine
