// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/error.h"

#include <string_view>

namespace kernels {

void failCheck(const char *condition, const char *file, int line)
{
    const std::string_view path(file);
    const auto slash = path.rfind('/');
    const std::string name(slash == std::string_view::npos ? path : path.substr(slash + 1));
    throw Error(ErrorCode::Internal,
                "internal check failed: " + std::string(condition) + " (" + name + ":" + std::to_string(line) + ")");
}

} // namespace kernels
