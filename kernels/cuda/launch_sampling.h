// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/sampling.h"

/// Logits to tokens on the device. What is computed, in float64, and in which order, is what engine::Sampler says; the
/// random numbers are those of engine::CounterRandom. A row's token depends on that row alone.
namespace kernels::cuda {

/// Pointers to device memory.
struct SamplingInputs {
    RowSpan logits;                    ///< rows of vocab, left as they are
    const SamplingRow *rows = nullptr; ///< [rowCount]
    int rowCount = 0;
    const int *history = nullptr;           ///< tokens of all rows
    const SamplingBias *biases = nullptr;   ///< of all rows, added one after the other before penalties
    const std::uint64_t *allowed = nullptr; ///< rows of (vocab + 63) / 64 words, a bit for each token
};

/// Memory for `rows` rows at a time; more rows are sampled one set after the other.
struct SamplingScratch {
    std::byte *memory = nullptr;
    int rows = 0;
};
[[nodiscard]] constexpr std::size_t samplingScratchBytes(int rows, int vocab)
{
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(vocab + vocab % 2) * 28;
}

// sampling.cu
/// sampled [rowCount]. With perRow >= 0 log-probabilities are computed for the rows that want them: alternatives
/// [rowCount, perRow], of each row as many as it wants and fit, best first, then -1 where the vocabulary has no more.
void launchSample(const SamplingInputs &inputs, const SamplingScratch &scratch, SampledRow *sampled,
                  Alternative *alternatives, int perRow, StreamHandle stream);

} // namespace kernels::cuda
