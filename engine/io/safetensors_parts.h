// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/io/safetensors_reader.h"

#include <string_view>

namespace engine {

/// Reads the JSON text of a header. Sizes and offsets are as it says: offsets count from the data's start, and only
/// types, shapes and the fields themselves have been checked.
/// \throws Error Refused
[[nodiscard]] SafetensorsHeader parseSafetensorsHeader(std::string_view text, const std::string &file);

} // namespace engine
