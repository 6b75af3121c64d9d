// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace engine {

/// What a walk through a model folder finds; nothing has been opened.
struct ModelFiles {
    /// Paths that end in .gguf, of a set of shards the first only, and Hugging Face folders; sorted by name.
    std::vector<std::string> files;
    std::vector<std::pair<std::string, std::string>> problems; ///< a folder and what went wrong with it
};

/// Walks `folder` and all below it, following links; every folder is entered once, so that loops end.
[[nodiscard]] ModelFiles findModelFiles(const std::string &folder);

/// True for a folder with config.json and weights in .safetensors files.
[[nodiscard]] bool isModelFolder(const std::string &path);

/// The file's name without folder and ".gguf"; a folder's own name, that of its repository in the cache of downloads
/// ("models--maker--NAME/snapshots/REVISION").
[[nodiscard]] std::string modelName(std::string_view path);

/// The model that a file belongs to: the folder of a config.json, .safetensors file or index, else the file itself.
[[nodiscard]] std::string modelPathOf(const std::string &path);

/// Lower case of ASCII letters; other characters stay.
[[nodiscard]] std::string lowerCase(std::string_view text);

} // namespace engine
