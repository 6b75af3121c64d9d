// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/request.h"
#include "engine/runtime/ranked_logits.h"

#include <optional>
#include <span>
#include <vector>

namespace engine {

/// Draws from lists of many thousand tokens without sorting them: tokens are counted into buckets by their logits, and
/// only those buckets are sorted in which a cut or the draw falls.
///
/// Sums are taken in another order than the definition's, bucket by bucket, with exponentials that are right to 1e-13.
/// Where that could decide, nothing is drawn, and the caller goes by the definition. So the token is always that of the
/// definition. Memory is kept. Thread: one caller.
class BucketDraw {
public:
    /// The token at `u` of what top_p and min_p leave. `list`: all down to some logit, in any order; they hold all
    /// that top_p and min_p leave, or without those, what `u` falls into. `exponentials`: of the list, at temperature 1
    /// with top_p, else at that of the request; empty where they are not known.
    /// \pre top_k is off, temperature >= RankedLogits::leastTemperature
    [[nodiscard]] std::optional<int> draw(const RankedLogits &logits, const RankedLogits::Gathered &list,
                                          std::span<const double> exponentials, const SamplingParams &params, double u);

private:
    /// Sums of exp((logit - peak) / temperature) at temperature 1 and at that of the request.
    struct Mass {
        double cut = 0;
        double drawn = 0;
    };

    void fill(const SamplingParams &params, std::span<const double> known);
    [[nodiscard]] int bucketOf(double logit) const;
    void sortBucket(int bucket, std::vector<int> &sorted);
    [[nodiscard]] bool cutByMass(double topP);
    [[nodiscard]] bool cutByLogit(double least);
    [[nodiscard]] std::optional<int> find(double temperature, double goal);

    const RankedLogits *m_logits = nullptr; ///< of the draw in hand, as all that follows
    RankedLogits::Gathered m_list;
    std::vector<double> m_drawn; ///< [tokens]: at the temperature
    std::vector<int> m_places;   ///< [tokens]: buckets
    std::vector<int> m_inBucket; ///< of the list, what is in one bucket
    std::vector<Mass> m_masses;  ///< [buckets]
    double m_peak = 0;
    double m_scale = 0;       ///< buckets for a difference of 1
    int m_end = 0;            ///< buckets that are kept whole
    std::vector<int> m_tail;  ///< what is kept of the next one, sorted
    std::vector<int> m_inner; ///< of the bucket in which the draw falls
};

} // namespace engine
