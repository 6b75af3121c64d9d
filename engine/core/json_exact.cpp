// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/core/json_exact.h"

namespace engine {

std::optional<std::string> bigInteger(const Json &value)
{
    if (!value.is_binary())
        return std::nullopt;
    const Json::binary_t &digits = value.get_binary();
    return std::string(digits.begin(), digits.end());
}

} // namespace engine
