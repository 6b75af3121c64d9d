// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/error.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace engine {

/// Which file of a set holds which tensor: `model.safetensors.index.json`.
struct SafetensorsIndex {
    std::vector<std::string> files;              ///< names in the index's own folder, sorted
    std::unordered_map<std::string, int> fileOf; ///< tensor name to a number in `files`
};

/// Reads an index. File names must be plain names that end in .safetensors: nothing outside the folder is opened.
/// \throws Error Refused or IoError naming the file and the fault
[[nodiscard]] SafetensorsIndex readSafetensorsIndex(const std::string &path);

} // namespace engine
