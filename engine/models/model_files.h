// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/io/checkpoint.h"

#include <memory>
#include <string>

namespace engine {

/// Opens what a user calls a model: a GGUF file or the first of a set, or a Hugging Face folder (config.json and
/// safetensors), whose keys and names are translated to GGUF's. A config.json, .safetensors file or index stands for
/// its folder.
/// \throws Error Refused or IoError naming file, key or tensor, found and wanted
[[nodiscard]] std::unique_ptr<Checkpoint> openModelFiles(const std::string &path);

} // namespace engine
