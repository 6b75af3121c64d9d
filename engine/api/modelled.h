// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/config.h"
#include "engine/api/events.h"
#include "engine/api/stats.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

/// A device as its two roofs: what it is said to do at most, and the share of it that real kernels reach.
struct DeviceRoof {
    std::string name;
    int devices = 1;               ///< working on one model, tensor-parallel
    double memoryBytes = 0;        ///< of each
    double bytesPerSecond = 0;     ///< memory bandwidth of each
    double flopsPerSecond = 0;     ///< dense, in the type of the activations, of each
    double bandwidthShare = 1;     ///< reached while a step reads weights and cache
    double cacheShare = 1;         ///< of that, what reading the cache reaches
    double flopsShare = 1;         ///< reached in large matrix products
    double linkBytesPerSecond = 0; ///< to the other devices, one direction; used when devices > 1
    double linkSeconds = 0;        ///< latency of one collective
    double stepSeconds = 0;        ///< fixed time of a step beside its kernels
    bool overlaps = true;          ///< reads and arithmetic run at the same time; else their times add up
};

/// The sizes of a transformer that decide what a step costs.
struct ModelShape {
    std::string name;
    int layers = 0;
    int hidden = 0;
    int heads = 0;
    int kvHeads = 0;
    int headDim = 0;
    int inner = 0; ///< of the gated feed-forward
    int vocab = 0;
    int contextLength = 0;
    double weightBytesEach = 2; ///< of one weight
    double kvBytesEach = 2;     ///< of one key or value element

    [[nodiscard]] double layerParameters() const; ///< all layers together
    [[nodiscard]] double headParameters() const;
    [[nodiscard]] double weightBytes() const; ///< layers, head and embedding
    [[nodiscard]] double kvBytesPerToken() const;
};

/// What one step does.
struct StepWork {
    int tokens = 0;
    int logitRows = 0;
    double cacheTokens = 0; ///< tokens of keys and values read, summed over sequences
    double scorePairs = 0;  ///< (query, key) pairs
};

/// Seconds of a step: for the matrix products and for attention the slower of memory and arithmetic (or both, where
/// they do not overlap), their sum, the all-reduces of tensor parallelism, and the fixed time.
/// Source: Williams et al. 2009, "Roofline"; the operation counts are those of the Llama architecture.
[[nodiscard]] double stepSeconds(const DeviceRoof &device, const ModelShape &shape, const StepWork &work);

/// A published device with a published model, by the name that `--modelled` takes.
struct ModelledTarget {
    std::string name;
    DeviceRoof device;
    ModelShape shape;
};
[[nodiscard]] std::vector<std::string> modelledTargets();
/// \throws Error InvalidArgument naming the known ones
[[nodiscard]] ModelledTarget modelledTarget(std::string_view name);

/// Tokens of KV cache beside the weights, with `reserve` of the memory kept free.
[[nodiscard]] std::int64_t kvTokensThatFit(const ModelledTarget &target, double reserve);

/// One request of a modelled run. Its first `sharedTokens` are those of all others with the same `sharedGroup`.
struct ModelledRequest {
    double arrival = 0; ///< seconds
    int promptTokens = 0;
    int outputTokens = 0;
    int sharedTokens = 0;
    int sharedGroup = 0;
};

/// How the modelled engine is set up; the same values as of a real one.
struct ModelledSetup {
    EngineConfig config; ///< limits, kv (numBlocks must be set), admission rules and baselines are used
    int maxModelLen = 0;
};

struct ModelledOutcome {
    ModelledRequest request;
    RequestFinished finished; ///< times as the engine reports them, on the virtual clock
    double endedAt = 0;
};

/// Called with each request that has ended; may return the next one of the same client, which arrives no earlier.
using ModelledFollowUp = std::function<std::optional<ModelledRequest>(const ModelledOutcome &)>;

/// Serves `requests` with the real scheduler and block manager on a virtual clock: a step takes what `cost` says.
/// Deterministic. `onStep` may be empty. \throws Error Internal when a step would have nothing to do for ever
[[nodiscard]] std::vector<ModelledOutcome> runModelled(const ModelledSetup &setup,
                                                       std::span<const ModelledRequest> requests,
                                                       const std::function<double(const StepWork &)> &cost,
                                                       const std::function<void(const StepStats &)> &onStep = {},
                                                       const ModelledFollowUp &followUp = {});

} // namespace engine
