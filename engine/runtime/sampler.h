// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/request.h"
#include "engine/runtime/bucket_draw.h"
#include "engine/runtime/ranked_logits.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace engine {

/// One entry of a distribution.
struct Candidate {
    int token = 0;
    double logit = 0;
    double probability = 0;
};

/// What was drawn for one row.
struct Sampled {
    int token = 0;
    double logprob = 0;                      ///< of the token, when logprobs were asked for
    std::vector<std::pair<int, double>> top; ///< (token, logprob), best first, ties by lower id
    std::string error;                       ///< not empty: the logits are unusable, and why
};

/// Logits to tokens. Order: penalties, top_k, top_p, min_p, temperature, draw; penalties look at prompt and output.
/// Every stage works on entries sorted by logit, equal ones by token id, in float64.
/// A row's result depends on its own logits, parameters, history, seed and position alone.
/// Log-probabilities are those of the raw logits, before penalties and temperature.
///
/// Thread: one caller; the object holds scratch only, and keeps it: a row like the one before allocates nothing.
class Sampler {
public:
    /// `isa`: the instruction level of the CPU backend that is used; results do not depend on it.
    explicit Sampler(std::string_view isa = "auto")
        : m_ranked(isa)
    {
    }

    /// `logits` [vocab]; `history` prompt and output so far. `allowed`: one bit for each token that may be drawn, or
    /// empty for all. \pre every history token is in the vocabulary
    [[nodiscard]] Sampled sample(std::span<const float> logits, const SamplingParams &params,
                                 std::span<const int> history, std::uint64_t seed,
                                 std::span<const std::uint64_t> allowed = {});

    /// The entries that a draw chooses from, most probable first. \pre temperature > 0, logits free of NaN and +inf
    [[nodiscard]] std::vector<Candidate> distribution(std::span<const float> logits, const SamplingParams &params,
                                                      std::span<const int> history);
    /// The first entry whose running sum of probabilities is above `u` in [0, 1).
    [[nodiscard]] static int draw(std::span<const Candidate> candidates, double u);
    /// Empty when the row can be sampled; else why not: not-a-number, +inf, or nothing but -inf.
    [[nodiscard]] static std::string checkLogits(std::span<const float> logits);
    /// What to say when no token that may be drawn has a finite logit.
    [[nodiscard]] static std::string nothingAllowed();
    /// Whether tokens of the history change logits.
    [[nodiscard]] static bool penalises(const SamplingParams &params);

private:
    [[nodiscard]] bool findChanged(std::span<const float> logits, const SamplingParams &params,
                                   std::span<const int> history);
    void keepBest(const SamplingParams &params);
    void listCandidates(const SamplingParams &params);
    [[nodiscard]] RankedLogits::Gathered enough(const SamplingParams &params, double u);
    [[nodiscard]] std::optional<int> pickFromShortList(const SamplingParams &params, double u);
    [[nodiscard]] int pick(const SamplingParams &params, double u);
    void addLogprobs(std::span<const float> logits, int count, Sampled &sampled);

    [[nodiscard]] std::span<const float> masked(std::span<const float> logits, std::span<const std::uint64_t> allowed,
                                                std::span<const LogitBias> biases);

    RankedLogits m_ranked;                        // after penalties
    BucketDraw m_buckets;                         // for long lists
    double m_roughTotal = 0;                      // of the sum that enough() went by
    std::vector<int> m_kept;                      // what the cuts leave, or some more
    std::vector<Candidate> m_candidates;          // the same with probabilities
    std::vector<double> m_exponentials;           // scratch of enough()
    std::span<const double> m_known;              // of those, what belongs to the list
    std::vector<RankedLogits::Changed> m_changed; // by them
    std::vector<float> m_masked;                  // biased, with -infinity for tokens that are not allowed
    std::vector<int> m_history;                   // sorted
};

} // namespace engine
