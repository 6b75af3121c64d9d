// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/config.h"

#include <cstddef>

namespace engine::baselines {

/// Tokens whose blocks a request of `size` tokens takes at admission: all that it may ever need, as caches that give
/// each request one contiguous piece must.
[[nodiscard]] inline int tokensAtAdmission(const ServingBaselines &baselines, int size, int maxModelLen)
{
    return baselines.reserveMaxLength ? maxModelLen : size;
}

/// Whether requests may join at all while `running` are running.
[[nodiscard]] inline bool mayJoin(const ServingBaselines &baselines, std::size_t running)
{
    return !baselines.staticBatches || running == 0;
}

/// Whether one prompt may take the whole step though others wait, and steps are not cut to end in time.
[[nodiscard]] inline bool takesWholePrompts(const ServingBaselines &baselines)
{
    return baselines.wholePrompts;
}

} // namespace engine::baselines
