// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/inspect.h"

#include <string>

namespace engine {

/// True for what is described as safetensors: a folder, a .safetensors file, an index or a config.json.
[[nodiscard]] bool isSafetensorsPath(const std::string &path);

/// inspectModel for such a path. A folder without weights or with an unknown model_type is described as far as it
/// goes, with a warning. \throws Error Refused or IoError
[[nodiscard]] ModelDescription inspectSafetensors(const std::string &path, bool withTensors, bool withMetadata);

} // namespace engine
