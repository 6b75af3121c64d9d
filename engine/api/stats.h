// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/request.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace engine {

/// One request's share of a step.
struct StepRow {
    RequestId request = 0;
    int prefillTokens = 0;
    int decodeTokens = 0;
    int contextTokens = 0; ///< in the cache after the step
    int promptTokens = 0;
};

/// One step of the engine, made once in commit; what window, load and metrics show. Times are seconds on one
/// monotonic clock that starts with the engine.
struct StepStats {
    std::uint64_t step = 0;
    double time = 0;     ///< end of the step
    double duration = 0; ///< seconds
    int prefillTokens = 0;
    int decodeTokens = 0;
    int running = 0;
    int waiting = 0;
    int maxNumSeqs = 0;
    int maxNumBatchedTokens = 0;
    int blocksTotal = 0;
    int blocksUsed = 0;                  ///< referenced by a request
    int blocksCached = 0;                ///< unreferenced, kept for prefix hits
    std::uint64_t preemptions = 0;       ///< since load
    std::uint64_t prefixQueryTokens = 0; ///< since load
    std::uint64_t prefixHitTokens = 0;   ///< since load
    std::vector<StepRow> rows;
    std::vector<double> ttftMs; ///< of requests whose first token came in this step
    std::vector<double> itlMs;  ///< gaps of the tokens of this step, one each
};

enum class BlockState : std::uint8_t { Free, Used, Cached };

/// One KV block for the page map.
struct BlockInfo {
    BlockState state = BlockState::Free;
    RequestId owner = 0; ///< a request that uses it; the first one when shared
    int refCount = 0;
    int tokens = 0;        ///< filled slots
    int firstPosition = 0; ///< position of its first token in the owner's context
};

/// The whole pool at one step; made only while Topic::Blocks is watched.
struct BlockMap {
    std::uint64_t step = 0;
    int blockTokens = 0;
    std::vector<BlockInfo> blocks;
};

/// Totals since the model was loaded, for `--stats` and audits.
struct EngineTotals {
    std::uint64_t steps = 0;
    int maxRunning = 0;
    std::uint64_t preemptions = 0;
    int blocksTotal = 0;
    int blocksFree = 0; ///< free or cached without owner
    std::uint64_t prefixHitTokens = 0;
    std::size_t kvBytes = 0; ///< of the pool
    std::size_t weightBytes = 0;
    std::size_t workspaceBytes = 0;
};

/// One device's sensors; an absent figure is empty, with the reason in `problem`.
struct DeviceStats {
    std::string id; ///< cpu, cuda:0
    std::string name;
    std::string kind; ///< cpu, cuda
    std::optional<std::size_t> memoryTotalBytes;
    std::optional<std::size_t> memoryFreeBytes;
    std::optional<double> temperatureC;
    std::optional<double> powerW;
    std::optional<double> powerLimitW;
    std::optional<double> utilization; ///< 0..1
    std::optional<double> clockMhz;
    std::optional<double> memoryClockMhz;
    std::string driver;
    std::vector<std::string> isa; ///< CPU levels
    std::string problem;
};

} // namespace engine
