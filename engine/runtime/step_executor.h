// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/runtime/batch.h"
#include "engine/runtime/sampling_requests.h"

#include <span>
#include <string>
#include <vector>

namespace engine {

/// Turns a Batch into logits. ModelRunner on the real model; a fake one in tests of the serving loop.
/// Thread: the engine thread; calls never overlap.
class StepExecutor {
public:
    virtual ~StepExecutor() = default;

    [[nodiscard]] virtual int vocabSize() const = 0;
    /// How a sequence's length decides about its ForwardBatch::ropeVariants.
    [[nodiscard]] virtual RopeVariants ropeVariants() const { return {}; }
    /// Replaces the KV pool; its contents are lost. The old pool is freed first.
    /// \throws Error OutOfMemory naming the bytes; the old pool is then in place again, empty.
    virtual void resizeKv(const KvSizes &sizes) = 0;
    /// Replaces the KV pool by one of other sizes and carries these tokens over, byte by byte.
    /// \throws Error OutOfMemory naming the bytes; the old pool is then in place as it was
    virtual void repageKv(const KvSizes &sizes, std::span<const SlotMove> moves) = 0;
    /// Makes room for steps of this size; only between steps. Does nothing when there is room already.
    /// \throws Error OutOfMemory naming the bytes; the old room stays
    virtual void reserve(int maxTokens, int maxLogitRows) = 0;
    /// One step, whose copies were made: logits [logitRows, vocabSize] F32 in the order of batch.forward.logitRows;
    /// valid until the next call. \pre the step fits what was reserved
    [[nodiscard]] virtual kernels::TensorView run(const Batch &batch) = 0;
    /// Whether tokens are drawn where logits are computed, by runAndSample.
    [[nodiscard]] virtual bool samples() const { return false; }
    /// One step, and a token for each of the requests, as Sampler draws it; logits stay on the device. \pre samples()
    [[nodiscard]] virtual std::vector<Sampled> runAndSample(const Batch &batch, const SamplingRequests &requests);
    /// Something about steps that a user should hear of, one sentence, told once; else empty.
    [[nodiscard]] virtual std::string takeNotice() { return {}; }
    /// Copies one block over another in every layer of its kind. \pre from != to
    virtual void copyBlock(const BlockCopy &copy) = 0;
    /// Worker threads from the next step on; results do not depend on it. 0 = cores
    virtual void setThreads(int threads) = 0;
    [[nodiscard]] virtual int threads() const = 0;
    /// Of threads(), those that computed the last step.
    [[nodiscard]] virtual int usedThreads() const { return threads(); }
};

inline std::vector<Sampled> StepExecutor::runAndSample(const Batch &, const SamplingRequests &)
{
    CHECK(samples());
    return {};
}

} // namespace engine
