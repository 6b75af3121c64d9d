// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/model_files.h"

#include "engine/models/hf_checkpoint.h"

#include <filesystem>

namespace engine {

std::unique_ptr<Checkpoint> openModelFiles(const std::string &path)
{
    std::error_code ignored;
    return std::filesystem::is_directory(path, ignored) ? openHfCheckpoint(path) : openCheckpoint(path);
}

} // namespace engine
