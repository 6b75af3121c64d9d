// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/io/checkpoint.h"
#include "engine/text/tokenizer.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace engine {

inline constexpr std::size_t largestTokenizerFile = 256U << 20U; ///< bytes; the largest in use has 33 MB

/// The tokenizer of a folder with tokenizer.json (or .json.xz). `ends` are ids that end an answer.
/// \throws Error Refused or IoError naming file and fault
[[nodiscard]] std::unique_ptr<Tokenizer> openFolderTokenizer(const std::string &folder, std::vector<int> ends = {});

/// The tokenizer that belongs to a checkpoint: of its keys, or of the files in its folder.
/// \throws Error Refused or IoError
[[nodiscard]] std::unique_ptr<Tokenizer> openTokenizer(const Checkpoint &checkpoint);

/// The chat template that belongs to a checkpoint, where it has one. \throws Error Refused or IoError
[[nodiscard]] std::optional<std::string> chatTemplateOf(const Checkpoint &checkpoint);

} // namespace engine
