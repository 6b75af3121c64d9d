// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/request.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
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

/// Counts of observations as Prometheus keeps them; bounds are those of vLLM's metrics. A plain value, copied whole.
struct Histogram {
    static constexpr std::size_t mostBounds = 24;
    std::span<const double> bounds;                  ///< upper bounds, ascending; static storage
    std::array<std::uint64_t, mostBounds> buckets{}; ///< [bounds]: observations of at most bounds[i]
    std::uint64_t count = 0;                         ///< all, those above the last bound too
    double sum = 0;

    void observe(double value);
};

/// What ended requests and made tokens have taken since the model was loaded. Seconds and tokens.
struct LatencyHistograms {
    /// Bounds of tokens go as far as one request can: `maxModelLen`, 0 = as far as they are known.
    explicit LatencyHistograms(int maxModelLen = 0);
    Histogram ttft;             ///< arrival to first token
    Histogram itl;              ///< between two tokens
    Histogram tpot;             ///< mean gap after the first token, one per request of two tokens or more
    Histogram e2e;              ///< arrival to last token
    Histogram queue;            ///< arrival to admission
    Histogram prefill;          ///< admission to first token
    Histogram decode;           ///< first token to last
    Histogram inference;        ///< admission to last token
    Histogram promptTokens;     ///< one per request
    Histogram computedTokens;   ///< of the prompt, those that were not cached; one per request
    Histogram generationTokens; ///< one per request
    Histogram askedTokens;      ///< most tokens that its answer could have; one per request
    Histogram choices;          ///< asked for at once; one for all of them
    Histogram longestChoice;    ///< tokens of the longest of them; one for all of them
    Histogram stepTokens;       ///< one per step
};

/// Where memory is, in bytes. The pool is committed as it is used, so `kvFree` may not be taken from the system yet.
struct MemoryUse {
    std::size_t weights = 0;
    std::size_t kvUsed = 0;    ///< blocks that a request holds
    std::size_t kvCached = 0;  ///< blocks kept for prefix hits
    std::size_t kvFree = 0;    ///< blocks with nothing in them
    std::size_t workspace = 0; ///< scratch of the largest step, and its logits
    std::size_t reserve = 0;   ///< of the free memory, kept for peaks
    std::size_t available = 0; ///< what the system could still give, the reserve within it; 0 = not known
};

/// One step of the engine, made once in commit; what window, load and metrics show. Times are seconds on one
/// monotonic clock that starts with the engine.
struct StepStats {
    std::uint64_t step = 0;
    double time = 0;     ///< end of the step
    double duration = 0; ///< seconds
    int threads = 0;     ///< that computed it; fewer than asked for while other programs hold cores
    int prefillTokens = 0;
    int decodeTokens = 0;
    int running = 0;
    int waiting = 0;
    int maxNumSeqs = 0;
    int maxNumBatchedTokens = 0;
    int blocksTotal = 0;
    int blocksUsed = 0;                  ///< referenced by a request
    int blocksCached = 0;                ///< unreferenced, kept for prefix hits
    std::int64_t kvSlots = 0;            ///< token slots of the blocks used, each block counted once
    std::int64_t kvSlotsEmpty = 0;       ///< of those, without a token even after this step has written its own
    std::uint64_t preemptions = 0;       ///< since load
    std::uint64_t prefixQueryTokens = 0; ///< since load
    std::uint64_t prefixHitTokens = 0;   ///< since load
    std::vector<StepRow> rows;
    std::vector<RequestId> admitted;     ///< before this step; resumed ones too
    std::vector<int> admittedCached;     ///< tokens that each of them took from the prefix cache
    std::vector<RequestId> preempted;    ///< since the step before
    int answeredPromptTokens = 0;        ///< prompt tokens of the requests whose first token came in this step
    std::vector<double> ttftMs;          ///< of requests whose first token came in this step
    std::vector<double> itlMs;           ///< gaps of the tokens of this step, one each
    std::vector<RequestId> ttftRequests; ///< whose ttftMs are, in the same order
    std::vector<RequestId> itlRequests;  ///< whose itlMs are, in the same order
};

enum class BlockState : std::uint8_t { Free, Used, Cached };

/// One KV block for the page map.
struct BlockInfo {
    BlockState state = BlockState::Free;
    RequestId owner = 0; ///< a request that uses it; the first one when shared
    int refCount = 0;
    int tokens = 0;        ///< filled slots
    int firstPosition = 0; ///< position of its first token in the owner's context
    bool inWindow = false; ///< layers that keep only a window hold its tokens too
};

/// The whole pool at one step; made only while Topic::Blocks is watched.
struct BlockMap {
    std::uint64_t step = 0;
    int blockTokens = 0;
    int windowBlocks = 0;     ///< that the layers with a window have; 0 = every layer keeps the whole context
    int windowBlocksUsed = 0; ///< of those, the ones that a request holds
    std::vector<BlockInfo> blocks;
};

/// Totals since the model was loaded: what `--stats`, the window, `load` and `/metrics` show. Kept in commit.
struct EngineTotals {
    EngineTotals() = default;
    explicit EngineTotals(int maxModelLen)
        : latencies(maxModelLen)
    {
    }

    std::uint64_t steps = 0;
    int threads = 0; ///< that computed the last step
    int maxRunning = 0;
    int running = 0;                ///< now
    int waiting = 0;                ///< now
    std::int64_t waitingTokens = 0; ///< of the requests that wait now
    std::uint64_t preemptions = 0;
    int blocksTotal = 0;
    int blocksFree = 0;        ///< free or cached without owner
    double kvUsage = 0;        ///< share of the blocks that requests hold, 0..1
    double kvSlotSeconds = 0;  ///< sum over steps of StepStats::kvSlots x duration
    double kvEmptySeconds = 0; ///< the same of kvSlotsEmpty; their ratio is the KV waste
    int windowBlocksTotal = 0; ///< blocks of the layers that hold only a window
    int windowBlocksFree = 0;  ///< of those, without owner
    std::uint64_t prefixQueryTokens = 0;
    std::uint64_t prefixHitTokens = 0;
    std::uint64_t promptTokens = 0; ///< of requests that got a first token
    std::uint64_t generationTokens = 0;
    std::array<std::uint64_t, finishReasons> finished{}; ///< requests by FinishReason; refused ones are Failed
    std::uint64_t refusedBusy = 0;                       ///< of those, the ones that found a queue full
    LatencyHistograms latencies;
    MemoryUse memory;
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
    std::optional<double> memoryTemperatureC;
    std::optional<double> pcieSendBytesPerSecond;    ///< to the host
    std::optional<double> pcieReceiveBytesPerSecond; ///< from the host
    std::optional<int> pcieGeneration;               ///< of the link as it is now
    std::optional<int> pcieLanes;
    std::optional<std::vector<std::string>> throttleReasons; ///< why clocks are lower now; empty = they are not
    std::optional<std::uint64_t> eccErrors;                  ///< that could not be corrected, since the driver started
    std::optional<int> xid; ///< the last fault that the driver told since the first reading
    std::string driver;
    std::vector<std::string> isa; ///< CPU levels
    std::string problem;
};

} // namespace engine
