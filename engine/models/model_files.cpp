// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/model_files.h"

#include "engine/models/hf_checkpoint.h"

#include <filesystem>

namespace engine {
namespace {

namespace fs = std::filesystem;

/// True for a file that stands for the folder it is in, as a file dialog may give it.
bool standsForFolder(const fs::path &path)
{
    const std::string name = path.filename().string();
    return name == "config.json" || name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json");
}

} // namespace

std::unique_ptr<Checkpoint> openModelFiles(const std::string &path)
{
    std::error_code ignored;
    if (fs::is_directory(path, ignored))
        return openHfCheckpoint(path);
    if (!standsForFolder(path))
        return openCheckpoint(path);
    const fs::path folder = fs::path(path).parent_path();
    return openHfCheckpoint(folder.empty() ? std::string(".") : folder.string());
}

} // namespace engine
