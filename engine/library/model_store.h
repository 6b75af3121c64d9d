// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace engine {

/// One installed model, a file or a folder, or what is wrong with it.
struct InstalledModel {
    std::string name; ///< file name without ".gguf", or the folder's; what resolveModel() takes
    std::string path;
    std::string origin = "lathe";
    std::string format = "gguf"; ///< or "safetensors": a folder
    std::uint64_t bytes = 0;     ///< all shards together
    std::string architecture;    ///< as the file spells it; empty when it does not say
    std::string problem;         ///< empty, or one sentence; the other rows are not touched by it
};

/// Our own model folder: $XDG_DATA_HOME/lathe/models, by default ~/.local/share/lathe/models. It need not exist.
[[nodiscard]] std::string modelFolder();

/// Every .gguf file and Hugging Face folder below `folder`, sorted by name; of a set of shards the first only. Pipes,
/// loops of links, broken and unreadable files are rows with a problem. Reads headers only. A folder that does not
/// exist gives an empty list.
[[nodiscard]] std::vector<InstalledModel> listModels(const std::string &folder = modelFolder());

/// The path behind what a user typed: a path as it is, else the installed model of that name.
/// \throws Error Refused when the name is unknown or ambiguous, naming close or all matches
[[nodiscard]] std::string resolveModel(const std::string &nameOrPath, const std::string &folder = modelFolder());

} // namespace engine
