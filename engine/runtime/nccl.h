// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/engine.h"

#include <string>

namespace engine {

/// Looks for NVIDIA's library of collective operations and asks it for its version; the program neither links nor needs
/// it. Source: NCCL user guide, ncclGetVersion.
[[nodiscard]] CollectiveLibrary openNccl(const std::string &library);

} // namespace engine
