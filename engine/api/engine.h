// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/config.h"
#include "engine/api/events.h"
#include "engine/api/request.h"
#include "engine/api/stats.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace engine {

/// What a view can subscribe to; an unwatched topic costs nothing.
enum class Topic { Blocks, Devices };

/// A running engine: one thread of its own that loads models and works through steps. Every call returns at once;
/// answers come as events. Implementations: the one in this process, a fake for tests, later a remote one.
///
/// Thread: any; calls and takeEvents may come from different threads. The destructor stops, joins, then frees.
class Engine {
public:
    virtual ~Engine() = default;

    /// Replaces the loaded model; on failure the old one stays loaded and LoadFailed tells why.
    /// Running requests are cancelled only when the new model is ready.
    virtual void loadModel(const std::string &path, const EngineConfig &config) = 0;
    virtual void cancelLoad() = 0;
    virtual void unloadModel() = 0;

    /// Answers with RequestAccepted, TokenEvents and one RequestFinished, also when no model is loaded.
    virtual RequestId submit(Request request) = 0;
    /// Several at once, so that they enter the same step.
    virtual std::vector<RequestId> submitAll(std::vector<Request> requests) = 0;
    /// `n` answers to one prompt, which is computed once: they share its blocks and copy only the one that they go on
    /// in. Answer i draws with seed + i when a seed is given. Each is a request of its own with its own events, can be
    /// cancelled alone, and needs a place of its own under AdmissionRules. \pre n >= 1
    virtual std::vector<RequestId> submitForks(Request request, int n) = 0;
    virtual void cancel(RequestId id) = 0;
    /// Replaces the sampling of a running request from the next step on; seed, stop and maxTokens included. A value
    /// out of range is answered with SamplingRefused; a request that has ended already is left alone.
    virtual void setSampling(RequestId id, const SamplingParams &sampling) = 0;

    /// Each acts between two steps and answers with ParametersApplied carrying the returned revision; tokens of running
    /// requests stay as they would have been. A pending change of the same kind is replaced. The pool does not shrink
    /// below what a running request was promised; the rest follows when nothing runs.
    virtual std::uint64_t setLimits(const BatchLimits &limits) = 0;
    virtual std::uint64_t setRules(const AdmissionRules &rules) = 0;
    virtual std::uint64_t setKvPool(const KvPoolConfig &kv) = 0;
    virtual std::uint64_t setThreads(int threads) = 0;

    /// After EngineNotice::DeviceLost: reads the model again for that device and computes what waits anew from its
    /// tokens. Answers with EngineNotice::DeviceReplaced, or with DeviceLost when that fails too.
    virtual void continueOn(const std::string &device) = 0;

    /// All events since the last call, in order.
    [[nodiscard]] virtual std::vector<Event> takeEvents() = 0;
    /// Called from an engine thread when events become available after the box was empty. Must not block.
    virtual void setWakeCallback(std::function<void()> wake) = 0;

    /// Steps after the last call by this reader, oldest first; at most the last few thousand are kept.
    [[nodiscard]] virtual std::vector<StepStats> takeSteps() = 0;
    [[nodiscard]] virtual EngineTotals totals() const = 0;
    virtual void watch(Topic topic, bool on) = 0;
    /// The newest map, or null when unwatched or nothing is loaded.
    [[nodiscard]] virtual std::shared_ptr<const BlockMap> blockMap() const = 0;
    [[nodiscard]] virtual std::shared_ptr<const std::vector<DeviceStats>> devices() const = 0;
    /// Tokens of one block of the watched map, as text; empty when it holds none. Answers within a step.
    [[nodiscard]] virtual std::string blockText(int block) = 0;
};

/// One engine for two who know nothing of each other. Each side may do what an Engine can; a request and its events
/// belong to the side that submitted it.
struct EngineSides {
    /// Gets everything that is of no request of the guest, and RequestAccepted and RequestFinished of those that are.
    /// It alone reads the steps.
    std::unique_ptr<engine::Engine> owner;
    /// Gets the events of its own requests, nothing else. Destroyed, it cancels those that run.
    std::unique_ptr<engine::Engine> guest;
};
/// The engine lives until both sides are destroyed, in any order. \pre engine is not null
[[nodiscard]] EngineSides shareEngine(std::unique_ptr<Engine> engine);

/// The engine of this process. Its thread runs until the object is destroyed. `workerCommand` starts a worker, as
/// ownWorkerCommand() does; empty: all devices are opened in this process.
[[nodiscard]] std::unique_ptr<Engine> makeEngine(std::vector<std::string> workerCommand = {});

/// NVIDIA's library of operations over several GPUs (NCCL).
struct CollectiveLibrary {
    std::string version; ///< "2.27.3"; empty when it cannot be used
    std::string problem; ///< why it cannot be used
};
/// Looks for it at run time.
[[nodiscard]] CollectiveLibrary findCollectives();

/// One reading of every device of this machine; loads NVML at run time when it is there.
[[nodiscard]] std::vector<DeviceStats> readDevices();

} // namespace engine
