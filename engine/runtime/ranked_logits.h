// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/logit_scans.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace engine {

/// Finds the best of a row of logits without sorting the row: higher logit first, equal ones by lower id.
///
/// The largest logit of every chunk is kept, so that most chunks are passed over; what has to be sorted is sorted by
/// its bits. A few logits may be replaced by float64 values, as penalties do. Memory is kept from row to row.
/// Thread: one caller.
class RankedLogits {
public:
    /// A token whose logit is replaced.
    struct Changed {
        int token = 0;
        double logit = 0;
    };

    /// `isa`: the instruction level that passes over whole rows use. Nothing that is found depends on it.
    explicit RankedLogits(std::string_view isa = "auto")
        : m_scans(&kernels::logitScans(isa))
    {
    }

    /// `logits` outlive the next call. False when a row cannot be used: some are NaN or +infinity, or all -infinity.
    [[nodiscard]] bool set(std::span<const float> logits);
    /// The same with others in the place of some; `changed` by ascending token. \pre no NaN or +infinity
    void set(std::span<const float> logits, std::span<const Changed> changed);

    [[nodiscard]] const kernels::LogitScans &scans() const { return *m_scans; }
    [[nodiscard]] std::size_t size() const { return m_logits.size(); }
    [[nodiscard]] double operator[](int token) const
    {
        return m_changed.empty() ? static_cast<double>(m_logits[static_cast<std::size_t>(token)]) : changedOr(token);
    }
    [[nodiscard]] double peak() const { return m_peak; }
    /// The lowest token of those with the largest logit.
    [[nodiscard]] int first() const;
    /// The `count` best, or all where there are no more. For short lists.
    void best(std::size_t count, std::vector<int> &kept) const;
    /// All of at least `limit`, sorted.
    void above(double limit, std::vector<int> &tokens) const;
    /// Tokens and their logits.
    struct Gathered {
        std::span<const int> tokens;
        std::span<const double> logits;
    };
    /// The same in no order that counts; valid until the next call of this or another.
    [[nodiscard]] Gathered gather(double limit) const;
    void sort(std::span<int> tokens) const;
    /// How far below the peak one must go, in units of temperature, so that all below has some `share` of the sum of
    /// exponentials, which is `sum`; a guess from a sample.
    [[nodiscard]] double guessReach(double temperature, double sum, double share) const;

    /// Sum of exp((logit - peak) / temperature) over all. Terms under 2^-86 of the peak cannot change a float64 sum of
    /// a vocabulary.
    [[nodiscard]] double sumOfExponentials(double temperature) const;
    /// The same to within `roughly` of itself, in a fraction of the time.
    [[nodiscard]] double roughSumOfExponentials(double temperature) const;
    static constexpr double roughly = kernels::LogitScans::roughError;
    /// The same to within some 1e-13 of itself. \pre temperature >= leastTemperature
    [[nodiscard]] double preciseSumOfExponentials(double temperature) const;
    static constexpr double leastTemperature = 1e-3; ///< its reciprocal is far from float's end

private:
    [[nodiscard]] double changedOr(int token) const;
    [[nodiscard]] bool isChanged(int token) const;
    [[nodiscard]] bool ranksBefore(int a, int b) const;
    [[nodiscard]] std::size_t chunkEnd(std::size_t chunk) const;
    [[nodiscard]] bool findPeaks();
    [[nodiscard]] float highestChunk() const;
    [[nodiscard]] bool bestByPeaks(std::size_t count, std::vector<int> &kept) const;
    void sortByBits(std::span<int> tokens) const;

    const kernels::LogitScans *m_scans;
    std::span<const float> m_logits; ///< -infinity where they are changed
    std::vector<float> m_copy;
    std::vector<Changed> m_changed;
    std::vector<float> m_chunkPeaks;
    double m_peak = 0;
    mutable std::vector<int> m_found;          ///< [size()], of which some are in use
    mutable std::vector<double> m_foundLogits; ///< the same
    mutable std::vector<float> m_highest;      ///< chunks' peaks, in part sorted
    mutable std::vector<std::uint64_t> m_keys; ///< of what is sorted: bits of the logit, then the token
    mutable std::vector<std::uint64_t> m_sorted;
};

} // namespace engine
