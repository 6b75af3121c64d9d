// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace engine {

enum class BackendKind { Auto, Reference };
/// How keys and values are stored. Auto: F32 under the reference backend, for models whose keys
/// come from F32 weights and for mixtures of experts in floats, else F16. Q8_0: blocks of 32 in 8 bits with an
/// fp16 scale; FP8: E4M3 without a scale.
enum class KvType { Auto, F32, F16, BF16, Q8_0, FP8 };
/// "auto", "f32" .. "q8_0", "fp8".
[[nodiscard]] const char *kvTypeName(KvType type);
enum class SchedulingPolicy { Fcfs, Priority, Shortest };

/// Limits that act between two steps; a change takes effect at the next one.
struct BatchLimits {
    int maxNumSeqs = 64;
    int maxNumBatchedTokens = 2048; ///< decode and prefill tokens of one step; at least maxNumSeqs
    bool operator==(const BatchLimits &) const = default;
};

/// Who is let in, and in what order; a change acts at the next step.
struct AdmissionRules {
    SchedulingPolicy policy = SchedulingPolicy::Fcfs;
    double admissionReserve = 0.20;      ///< share of the KV pool kept free when admitting beside running requests
    int maxNumQueuedReqs = 0;            ///< requests that may wait for a place; 0 = unlimited
    std::int64_t maxNumQueuedTokens = 0; ///< prompt tokens that may wait for a place; 0 = unlimited
    bool operator==(const AdmissionRules &) const = default;
};

/// Sizes of the KV pool. A change acts between two steps: what runs is moved, or computed again where it does not fit.
struct KvPoolConfig {
    int blockTokens = 16;            ///< 8, 16, 32, 64 or 128
    int numBlocks = 0;               ///< 0 = from budgetBytes
    std::size_t budgetBytes = 0;     ///< 0 = the default rule of `--kv-cache-memory-bytes`
    KvType type = KvType::Auto;      ///< of keys
    KvType valueType = KvType::Auto; ///< of values; Auto: as keys
    bool prefixCaching = true;
    int windowBlocks = 0; ///< of layers that hold only a window; follows from the rest, never asked for
    bool operator==(const KvPoolConfig &) const = default;
};

/// How serving was done before; each switches one system off. For experiments only.
struct ServingBaselines {
    bool reserveMaxLength = false; ///< a request takes blocks for max-model-len at once, as one contiguous piece would
    bool staticBatches = false;    ///< nobody joins before the whole batch has ended
    bool wholePrompts = false;     ///< a prompt is computed in one step, as far as the step's tokens reach
    bool operator==(const ServingBaselines &) const = default;
};

/// Where a model's device is opened. A fault that a GPU's driver does not forgive ends the process that met it.
enum class DeviceProcess {
    Auto,   ///< GPUs in a worker where the program can start one, all else in the engine's process
    Own,    ///< the engine's
    Worker, ///< a process that does nothing else
};

/// What happens to requests when their device is lost, and a worker for it was not, or not any more, to be had. In
/// every case they are kept as token ids until then.
enum class DeviceLoss {
    Ask,  ///< they wait for Engine::continueOn
    Cpu,  ///< they go on on the CPU
    Fail, ///< they end with an error
};

/// The types of a pool as `--kv-cache-dtype` takes them: "f16", or "f16,q8_0" where keys and values differ.
[[nodiscard]] std::string kvTypesText(const KvPoolConfig &kv);

/// Everything that loading a model needs to know. Requested values; ModelInfo holds the effective ones.
struct EngineConfig : AdmissionRules {
    std::string device = "auto"; ///< auto, cpu, or simt in test builds
    int threads = 0;             ///< 0 = cores
    std::string isa = "auto";
    BackendKind backend = BackendKind::Auto;
    int maxModelLen = 0;            ///< prompt + output of one request; 0 = min(model, 8192)
    double memoryReserve = 0.20;    ///< share of free memory kept for peaks
    double stepTimeoutSeconds = 60; ///< a step that takes longer is reported; 0 = never
    bool deterministic = true;
    DeviceLoss onDeviceLoss = DeviceLoss::Ask;
    DeviceProcess process = DeviceProcess::Auto;
    int deviceRestarts = 2; ///< times in ten minutes that a lost device is opened anew in a fresh worker
    /// Decode steps are queued as captured graphs on a device that can; the same tokens either way. Never with
    /// `profile`.
    bool cudaGraphs = true;
    bool profile = false;
    ServingBaselines baselines;
    BatchLimits limits;
    KvPoolConfig kv;
};

} // namespace engine
