// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/models/hf_config.h"

#include <string>
#include <string_view>

namespace engine {

/// The key of config.json that GGUF's `key` (without the architecture) was translated from, of several the one that
/// `config` has; `key` itself when there is none. For errors.
[[nodiscard]] std::string configKeyOf(const HfConfig &config, std::string_view key);

} // namespace engine
