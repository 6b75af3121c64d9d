// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/cache/kv_cache.h"
#include "engine/core/tensor.h"
#include "engine/runtime/padded_step.h"
#include "engine/runtime/profile.h"
#include "engine/runtime/step_executor.h"
#include "engine/runtime/thread_governor.h"

#include <memory>

namespace engine {

/// One rank: a device's operations, the model on it, its KV cache and the buffer that logits are written to.
/// Nothing is allocated inside run.
class ModelRunner final : public StepExecutor {
public:
    /// `profile` may be null; it must outlive this. `ops` are those that `model` was made with.
    ModelRunner(std::unique_ptr<kernels::Ops> ops, std::unique_ptr<Model> model, const KvTypes &kvTypes,
                Profile *profile = nullptr);
    ~ModelRunner() override;

    [[nodiscard]] int vocabSize() const override { return m_model->config().vocab; }
    [[nodiscard]] RopeVariants ropeVariants() const override { return m_model->config().ropeVariants(); }
    void resizeKv(const KvSizes &sizes) override;
    void repageKv(const KvSizes &sizes, std::span<const SlotMove> moves) override;
    void reserve(int maxTokens, int maxLogitRows) override;
    [[nodiscard]] kernels::TensorView run(const Batch &batch) override;
    [[nodiscard]] bool samples() const override { return m_ops->samples(); }
    [[nodiscard]] std::vector<Sampled> runAndSample(const Batch &batch, const SamplingRequests &requests) override;
    [[nodiscard]] std::string takeNotice() override { return m_stream->takeCaptureFault(); }
    void copyBlock(const BlockCopy &copy) override;
    void setThreads(int threads) override;
    /// Fewer than threads() while other programs hold cores and fewer are measured to be faster.
    [[nodiscard]] int usedThreads() const override { return m_stepThreads; }
    [[nodiscard]] int threads() const override { return m_ops->threads(); }

    /// Whether decode steps are filled up to shapes and queued as graphs from their second time on; on by default where
    /// the device captures steps. Results do not depend on it. Returns what is in force. \throws Error OutOfMemory
    bool setGraphs(bool on);

    /// A second pool as large as the one in use, in which keys and values are stored otherwise.
    /// \pre resizeKv was called. \throws Error OutOfMemory
    [[nodiscard]] std::unique_ptr<KvCache> makeKv(const KvTypes &types);
    /// Goes on with `other`, which holds the pool in use afterwards; for comparisons.
    void exchangeKv(std::unique_ptr<KvCache> &other);

    [[nodiscard]] const Model &model() const { return *m_model; }
    void setRouterCallback(RouterCallback callback);
    [[nodiscard]] kernels::Ops &ops() { return *m_ops; }
    [[nodiscard]] const KvTypes &kvTypes() const { return m_kvTypes; }
    [[nodiscard]] std::size_t kvBytes() const { return m_kv ? m_kv->bytes() : 0; } ///< of the whole pool
    [[nodiscard]] std::size_t workspaceBytes() const;                              ///< scratch and logits as reserved

private:
    /// As the governor says, where the processor computes.
    void chooseThreads();
    /// Forgets what was measured with another number of threads.
    void resetGovernor();
    [[nodiscard]] int mostBlocks() const; ///< of one sequence
    [[nodiscard]] ForwardBatch largestBatch() const;
    /// The same with a variant of the rotary embedding for each sequence, where the model has several.
    [[nodiscard]] ForwardBatch largestVariants() const;
    void planSampling(const kernels::TensorView &logits);
    void forward(const ForwardBatch &batch);
    /// Once there are a pool and room for steps: lets the device make the memory that the largest step needs besides,
    /// so that no step allocates. \throws Error OutOfMemory, Refused for what the device cannot compute
    void planSteps();
    [[nodiscard]] std::unique_ptr<KvCache> newKv(const KvSizes &sizes);
    /// Logits on the device; calls after(logits) for what follows them on the stream, then waits for all.
    template<typename After> void compute(const Batch &batch, After after);
    /// Queues the drawing of tokens, with room for them on the host.
    void sample(const kernels::TensorView &logits, const kernels::SamplingBatch &batch);
    [[nodiscard]] std::span<const float> logitsOnHost(const kernels::TensorView &logits, int row);

    std::unique_ptr<kernels::Ops> m_ops; // outlives everything made from it
    std::unique_ptr<kernels::Stream> m_stream;
    std::unique_ptr<Model> m_model;
    std::unique_ptr<KvCache> m_kv;
    Tensor m_logits;
    std::unique_ptr<kernels::Buffer> m_hostLogits;       ///< where the host cannot read m_logits
    std::unique_ptr<kernels::Buffer> m_hostSampled;      ///< rows, where the device samples
    std::unique_ptr<kernels::Buffer> m_hostAlternatives; ///< the same
    ThreadGovernor m_governor;
    int m_stepThreads = 1;
    KvTypes m_kvTypes;
    int m_maxTokens = 0;
    int m_maxLogitRows = 0;
    PaddedStep m_padded;
    bool m_graphs = false;
    bool m_traced = false; ///< somebody sees each choice of experts
    Profile *m_profile;
};

} // namespace engine
