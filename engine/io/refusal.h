// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/error.h"
#include "engine/core/printable.h"

#include <string>

namespace engine {

/// \throws Error Refused, always: `"path" problem`
[[noreturn]] inline void refuseFile(const std::string &path, const std::string &problem)
{
    throw Error(ErrorCode::Refused, inQuotes(path) + ' ' + problem);
}

} // namespace engine
