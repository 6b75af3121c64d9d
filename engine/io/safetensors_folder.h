// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/error.h"

#include <string>
#include <vector>

namespace engine {

/// Where the weights of a folder are.
struct SafetensorsFolder {
    std::string index;              ///< path of the index, or empty
    std::vector<std::string> files; ///< paths, when there is no index; empty: the folder has no weights
    std::string warning;            ///< about files that stand beside them, else empty
};

/// Looks at names only. \throws Error Refused when it is not clear which files are the model, or numbered ones are
/// missing
[[nodiscard]] SafetensorsFolder findSafetensors(const std::string &folder);

/// Refuses the first of `paths` that do not exist, with how many there are. \throws Error Refused
void refuseMissingFiles(const std::string &origin, const std::vector<std::string> &paths);

/// Refuses a numbered file or model.safetensors that stands beside an index and is none of the names that it gives.
/// \throws Error Refused, IoError
void refuseExtraFiles(const std::string &folder, const std::vector<std::string> &indexed);

} // namespace engine
