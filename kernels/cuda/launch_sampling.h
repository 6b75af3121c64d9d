// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cuda/launch.h"

/// Logits to tokens on the device. What is computed, in float64, and in which order, is what engine::Sampler says; the
/// random numbers are those of engine::CounterRandom. A row's token depends on that row alone.
namespace kernels::cuda {

/// How one row is sampled; a plain copy of the request's parameters.
struct SamplingRow {
    double temperature = 0.0; ///< 0 = the largest, lowest id among equal ones
    double topP = 1.0;        ///< 1 = off
    double minP = 0.0;        ///< 0 = off
    double repetitionPenalty = 1.0;
    double presencePenalty = 0.0;
    double frequencyPenalty = 0.0;
    std::uint64_t seed = 0;
    std::uint64_t position = 0; ///< of the random number: tokens of prompt and output so far
    int topK = 0;               ///< 0 = off
    int firstHistory = 0;       ///< in SamplingInputs::history, for penalties
    int historyCount = 0;
    int firstBias = 0; ///< in SamplingInputs::biases
    int biasCount = 0;
    int allowedRow = -1;   ///< in SamplingInputs::allowed; -1 = all tokens
    int alternatives = -1; ///< logprobs wanted beside the token's, at most mostAlternatives; -1 = none at all
};

struct SamplingBias {
    int token = 0;
    float bias = 0.0F;
};

/// All on the device.
struct SamplingInputs {
    RowSpan logits;                         ///< [rows, vocab], left as they are
    const SamplingRow *rows = nullptr;      ///< [rows]
    const int *history = nullptr;           ///< tokens of all rows
    const SamplingBias *biases = nullptr;   ///< of all rows, added one after the other before penalties
    const std::uint64_t *allowed = nullptr; ///< rows of (vocab + 63) / 64 words, a bit for each token
};

/// Why a row has no token.
enum class SamplingFault : int { None, NotANumber, Infinity, NothingFinite, NothingAllowed };

/// What was drawn for one row.
struct SampledRow {
    int token = 0;
    SamplingFault fault = SamplingFault::None;
    int at = 0;           ///< token of the first logit at fault
    double logprob = 0.0; ///< of the token, from the raw logits
};

struct Alternative {
    int token = 0;
    double logprob = 0.0;
};

constexpr int mostAlternatives = 64;

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
/// sampled [rows]; alternatives [rows, mostAlternatives], of each row as many as it wants, best first, then -1 where
/// the vocabulary has no more; null when no row wants logprobs.
void launchSample(const SamplingInputs &inputs, const SamplingScratch &scratch, SampledRow *sampled,
                  Alternative *alternatives, StreamHandle stream);

} // namespace kernels::cuda
