// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/request.h"
#include "engine/runtime/step_executor.h"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

/// A network for tests of the serving loop. Its logits are a function of all tokens of a sequence, which it reads
/// back through the block table from the slots that earlier steps wrote, as attention does: a wrong slot, block or
/// position gives wrong tokens, never by luck the right ones. With a window there are two stores, as if half of its
/// layers had that window: what is missing in the second spoils the token that looked for it, and all behind it.
class FakeModel final : public engine::StepExecutor {
public:
    explicit FakeModel(int vocab, std::uint64_t seed = 1);

    [[nodiscard]] int vocabSize() const override { return m_vocab; }
    void resizeKv(const engine::KvSizes &sizes) override;
    void repageKv(const engine::KvSizes &sizes, std::span<const engine::SlotMove> moves) override;
    void reserve(int maxTokens, int maxLogitRows) override;
    [[nodiscard]] kernels::TensorView run(const engine::Batch &batch) override;
    void copyBlock(const engine::BlockCopy &copy) override;
    void setThreads(int threads) override { m_threads = threads; }
    [[nodiscard]] int threads() const override { return m_threads; }

    /// Logits after these tokens, computed without any cache.
    [[nodiscard]] std::vector<float> logits(std::span<const int> tokens) const;
    /// What a request gets when it is alone, without any cache: its output tokens. Stops after `maxTokens`, at
    /// `contextLimit` tokens in all, or after `endToken`.
    [[nodiscard]] std::vector<int> alone(const std::vector<int> &prompt, const engine::SamplingParams &sampling,
                                         std::uint64_t seed, int maxTokens, int contextLimit, int endToken = -1) const;

    std::function<void(const engine::Batch &)> beforeRun;                  ///< may throw, sleep or look
    std::function<void(const engine::BatchRow &, std::span<float>)> spoil; ///< may overwrite a row's logits

private:
    struct Slot {
        int token = -1;
        int position = -1;
        int variant = 0;
    };

    [[nodiscard]] static std::uint64_t after(std::uint64_t state, int token);
    [[nodiscard]] std::vector<float> logitsOf(std::uint64_t state) const;

    int m_vocab;
    std::uint64_t m_seed;
    int m_threads = 1;
    /// Whether a token finds all that it sees through the window.
    [[nodiscard]] bool windowIsWhole(const engine::ForwardBatch &forward, std::size_t sequence, int position) const;

    engine::KvSizes m_sizes;
    std::vector<Slot> m_windowSlots;
    int m_maxTokens = 0;
    int m_maxLogitRows = 0;
    std::vector<Slot> m_slots;
    std::vector<float> m_logits;
};
