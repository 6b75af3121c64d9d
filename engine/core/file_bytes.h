// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/error.h"

#include <cstddef>
#include <filesystem>
#include <string>

namespace engine {

/// The bytes of a regular file; a name that ends in ".xz" is unpacked. More than `maxBytes`, packed or unpacked, is
/// refused. \throws Error Refused or IoError naming the file
[[nodiscard]] std::string readFileBytes(const std::string &path, std::size_t maxBytes);

/// `folder`/`name`, plain or packed (".xz"), or empty where neither exists.
[[nodiscard]] std::filesystem::path presentFile(const std::filesystem::path &folder, const std::string &name);

} // namespace engine
