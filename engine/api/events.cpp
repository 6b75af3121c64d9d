// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/events.h"

namespace engine {

RequestId requestOf(const Event &event)
{
    return std::visit(
        [](const auto &one) -> RequestId {
            if constexpr (requires { one.id; })
                return one.id;
            else
                return 0;
        },
        event);
}

} // namespace engine
