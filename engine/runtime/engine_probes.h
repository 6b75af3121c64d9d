// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/core/system_memory.h"
#include "engine/runtime/scheduler.h"

#include <cstddef>
#include <functional>
#include <string>

namespace engine {

/// What the engine thread asks about itself and its surroundings; tests give answers of their own. Thread: the engine
/// thread.
struct EngineProbes {
    std::function<std::size_t()> availableMemory = availableMemoryBytes;
    /// When nothing runs; what is wrong then, else empty.
    std::function<std::string(const Scheduler &)> audit = [](const Scheduler &scheduler) {
        return scheduler.auditIdle();
    };
};

} // namespace engine
