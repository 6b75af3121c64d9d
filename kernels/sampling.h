// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <span>

namespace kernels {

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
    int logitRow = 0;           ///< whose logits are drawn from; several rows may draw from one
    int topK = 0;               ///< 0 = off
    int firstHistory = 0;       ///< in the batch's history, for penalties: all tokens of prompt and output
    int historyCount = 0;
    int firstBias = 0; ///< in the batch's biases
    int biasCount = 0;
    int allowedRow = -1;   ///< in the batch's allowed; -1 = all tokens
    int alternatives = -1; ///< logprobs wanted beside the token's; -1 = none at all
};

struct SamplingBias {
    int token = 0;
    float bias = 0.0F;
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

/// Rows to sample in one go.
struct SamplingBatch {
    std::span<const SamplingRow> rows;
    std::span<const int> history;           ///< tokens of all rows
    std::span<const SamplingBias> biases;   ///< of all rows, added one after the other before penalties
    std::span<const std::uint64_t> allowed; ///< rows of (vocab + 63) / 64 words, a bit for each token
    int alternatives = -1;                  ///< the most that a row wants
};

} // namespace kernels
