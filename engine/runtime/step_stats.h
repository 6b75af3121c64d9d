// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/request.h"
#include "engine/api/stats.h"
#include "engine/runtime/scheduler.h"

#include <memory>
#include <vector>

namespace engine {

/// Token counts of a request that ended.
[[nodiscard]] Usage usageOf(const Sequence &sequence);
/// Latencies of a request that ended at `now`. A request without output has no TTFT and no rates: they are 0.
[[nodiscard]] Timings timingsOf(const Sequence &sequence, double now);

/// The page map of one step, with the tokens of every block that holds some.
struct BlockSnapshot {
    std::shared_ptr<const BlockMap> map;
    std::vector<int> tokens; ///< [blocks, blockTokens]; of each block map->blocks[i].tokens are valid
};
[[nodiscard]] BlockSnapshot snapshotBlocks(const Scheduler &scheduler);

} // namespace engine
