// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/events.h"
#include "engine/io/checkpoint.h"

#include <string>
#include <vector>

namespace engine {

/// What `general.sampling.*` suggests (temp, top_k, top_p, min_p, penalty_repeat), in folders generation_config.json.
/// Values that a request may not have are left out, with a warning.
[[nodiscard]] SuggestedSampling suggestedSampling(const Metadata &metadata, std::vector<std::string> &warnings);

} // namespace engine
