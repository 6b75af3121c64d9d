// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/config.h"
#include "engine/api/events.h"
#include "engine/io/checkpoint.h"
#include "engine/runtime/model_runner.h"
#include "engine/text/chat_template.h"
#include "engine/text/tokenizer.h"

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

namespace engine {

/// The element type of a stored type. \pre not Auto
[[nodiscard]] kernels::DType kvDType(KvType type);

/// The device that a config means: what "auto" is here.
[[nodiscard]] std::string chosenDevice(const EngineConfig &config);

/// Sizes of a KV pool that can be made now.
struct KvPoolPlan {
    int blocks = 0;
    int blockTokens = 0;
    int windowBlocks = 0; ///< of layers that hold only a window
    std::size_t bytes = 0;
    std::string note; ///< why it differs from what was asked for, else empty
};

/// A model that is ready to run: files, vocabulary, template and runner, with the effective values of everything
/// that was asked for. Thread: the engine thread.
class LoadedModel {
public:
    /// `fraction` 0..1 of the work, `stage` what is being done.
    using ProgressCallback = std::function<void(double fraction, const std::string &stage)>;
    /// Puts operations that watch what passes around those of the backend.
    using OpsWrapper = std::function<std::unique_ptr<kernels::Ops>(std::unique_ptr<kernels::Ops>)>;

    /// \throws Error Refused for a file that is broken or not supported, OutOfMemory, NoDevice, InvalidArgument,
    /// Cancelled when `stop` was requested between two tensors
    LoadedModel(const std::string &path, const EngineConfig &config, const ProgressCallback &progress,
                std::stop_token stop, const OpsWrapper &wrap = {});
    ~LoadedModel();

    [[nodiscard]] const ModelInfo &info() const { return m_info; }
    [[nodiscard]] const Checkpoint &checkpoint() const { return *m_checkpoint; }
    [[nodiscard]] const Tokenizer &tokenizer() const { return *m_tokenizer; }
    /// Null when the model has none that can be used; info().warnings then says why.
    [[nodiscard]] const ChatTemplate *chatTemplate() const { return m_template ? &*m_template : nullptr; }
    [[nodiscard]] ModelRunner &runner() { return *m_runner; }
    /// Null unless EngineConfig::profile.
    [[nodiscard]] const Profile *profile() const { return m_profile.get(); }

    /// The one place that sizes a KV pool, at start-up and at run time: what `kv` and `limits` give with the memory
    /// that is free now, and room for one request of `leastTokens` tokens. A pool no larger than the one in place
    /// needs no free memory. \throws Error InvalidArgument for a block size that is not allowed, OutOfMemory naming the
    /// bytes wanted and free
    [[nodiscard]] KvPoolPlan planKvPool(const KvPoolConfig &kv, const BatchLimits &limits,
                                        std::int64_t leastTokens = 0) const;
    /// What was asked for, with the sizes of the plan.
    [[nodiscard]] KvPoolConfig effectiveKv(const KvPoolConfig &kv, const KvPoolPlan &plan) const;
    /// Replaces the pool by an empty one as planKvPool gives it and records it in info().effective.
    KvPoolPlan applyKvPool(const KvPoolConfig &kv);
    /// Replaces the pool by one of these sizes, carries tokens over and records it.
    /// \throws Error OutOfMemory; the old pool is then in place as it was
    void installKvPool(const KvPoolConfig &effective, std::span<const SlotMove> moves);
    /// Makes room for steps under `limits` and records them in info().effective; says why they differ from what was
    /// asked for, else empty. \throws Error InvalidArgument, OutOfMemory
    std::string applyLimits(const BatchLimits &limits);
    /// \throws Error InvalidArgument
    void applyRules(const AdmissionRules &rules);
    /// 0 = cores
    void applyThreads(int threads);

    /// Empty while the files are the ones that were opened; else one sentence for ModelFileChanged.
    [[nodiscard]] std::string checkFileUnchanged() const { return m_checkpoint->checkUnchanged(); }

private:
    void openText(const ModelConfig &model);
    void openTemplate();
    void describe(const ModelConfig &model);
    [[nodiscard]] std::int64_t wantedBlocks(const KvPoolConfig &kv, const BatchLimits &limits, const KvShape &shape,
                                            std::size_t free) const;

    ModelInfo m_info;
    std::unique_ptr<Profile> m_profile;       // outlives the runner
    std::unique_ptr<Checkpoint> m_checkpoint; // outlives the runner: some backends go on reading mapped weights
    std::unique_ptr<Tokenizer> m_tokenizer;
    std::optional<ChatTemplate> m_template;
    std::unique_ptr<ModelRunner> m_runner;
};

} // namespace engine
