// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace engine {

/// What a walk through a model folder finds; nothing has been opened.
struct ModelFiles {
    std::vector<std::string> files; ///< paths that end in .gguf, sorted by name; of a set of shards the first only
    std::vector<std::pair<std::string, std::string>> problems; ///< a folder and what went wrong with it
};

/// Walks `folder` and all below it, following links; every folder is entered once, so that loops end.
[[nodiscard]] ModelFiles findModelFiles(const std::string &folder);

/// The file's name without folder and ".gguf".
[[nodiscard]] std::string modelName(std::string_view path);

/// Lower case of ASCII letters; other characters stay.
[[nodiscard]] std::string lowerCase(std::string_view text);

} // namespace engine
