// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/error.h"

#include <cstddef>
#include <string>

namespace engine {

/// The bytes of a regular file; a name that ends in ".xz" is unpacked. More than `maxBytes`, packed or unpacked, is
/// refused. \throws Error Refused or IoError naming the file
[[nodiscard]] std::string readFileBytes(const std::string &path, std::size_t maxBytes);

} // namespace engine
