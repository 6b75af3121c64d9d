// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/ops.h"
#include "kernels/thread_pool.h"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace engine::baselines {

/// Causal attention as it is written down: all scores of all heads, then their softmax, then the weighted values. The
/// two products are those of the backend, on keys and values packed like weights beforehand, so that only the way
/// differs. Source: Vaswani et al. 2017, arXiv:1706.03762, equation 1.
class ScoreMatrixAttention {
public:
    /// keys, values [context, kvHeads, headDim]; both are packed and not needed afterwards. `ops` must outlive this.
    ScoreMatrixAttention(kernels::Ops &ops, const kernels::AttentionShape &shape, int context,
                         std::span<const float> keys, std::span<const float> values);
    ~ScoreMatrixAttention();
    ScoreMatrixAttention(const ScoreMatrixAttention &) = delete;
    ScoreMatrixAttention &operator=(const ScoreMatrixAttention &) = delete;

    /// q, out [heads, context, headDim], one query for each key. The first call takes the memory of the scores.
    void run(std::span<const float> q, std::span<float> out);
    [[nodiscard]] std::size_t scoreBytes() const; ///< of the matrix that run() takes

private:
    void softmax(float *scores);

    kernels::Ops &m_ops;
    kernels::AttentionShape m_shape;
    int m_context;
    kernels::ThreadPool m_pool;
    std::unique_ptr<kernels::Stream> m_stream;
    std::unique_ptr<kernels::Buffer> m_scores;                    // [heads, context, context]
    std::vector<std::unique_ptr<kernels::PackedWeight>> m_keys;   // per key head, [context, headDim]
    std::vector<std::unique_ptr<kernels::PackedWeight>> m_values; // per key head, [headDim, context]
};

} // namespace engine::baselines
