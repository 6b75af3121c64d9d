// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace engine {

/// Finds the best of a row of logits without sorting the row: higher logit first, equal ones by lower id.
///
/// The largest logit of every chunk is kept, so that most chunks are passed over; what has to be sorted is sorted by
/// its bits. A few logits may be replaced by float64 values, as penalties do. Thread: one caller.
class RankedLogits {
public:
    /// A token whose logit is replaced.
    struct Changed {
        int token = 0;
        double logit = 0;
    };

    struct Scan {
        float peak; ///< the largest, NaN aside; -infinity when there is none
        bool bad;   ///< some are NaN or +infinity
    };
    [[nodiscard]] static Scan scan(std::span<const float> logits);

    /// `logits` outlive the next call; `changed` by ascending token. \pre no NaN
    void set(std::span<const float> logits, std::span<const Changed> changed);

    [[nodiscard]] std::size_t size() const { return m_logits.size(); }
    [[nodiscard]] double operator[](int token) const
    {
        return m_changed.empty() ? static_cast<double>(m_logits[static_cast<std::size_t>(token)]) : changedOr(token);
    }
    [[nodiscard]] double peak() const { return m_peak; }
    /// The lowest token of those with the largest logit.
    [[nodiscard]] int first() const;
    /// The `count` best, or all where there are no more. For short lists.
    [[nodiscard]] std::vector<int> best(std::size_t count) const;
    /// All of at least `limit`.
    [[nodiscard]] std::vector<int> above(double limit) const;

    /// Sum of exp((logit - peak) / temperature) over all. Terms under 2^-86 of the peak cannot change a float64 sum of
    /// a vocabulary.
    [[nodiscard]] double sumOfExponentials(double temperature) const;
    /// The same to within `roughly` of itself, in a fraction of the time.
    [[nodiscard]] double roughSumOfExponentials(double temperature) const;
    static constexpr double roughly = 1e-5;

private:
    [[nodiscard]] double changedOr(int token) const;
    [[nodiscard]] bool isChanged(int token) const;
    [[nodiscard]] bool ranksBefore(int a, int b) const;
    [[nodiscard]] std::size_t chunkEnd(std::size_t chunk) const;
    void sort(std::vector<int> &tokens) const;
    void sortByBits(std::vector<int> &tokens) const;

    std::span<const float> m_logits; ///< -infinity where they are changed
    std::vector<float> m_copy;
    std::vector<Changed> m_changed;
    std::vector<float> m_chunkPeaks;
    double m_peak = 0;
    mutable std::vector<std::uint64_t> m_keys; ///< of what is sorted: bits of the logit, then the token
    mutable std::vector<std::uint64_t> m_sorted;
};

} // namespace engine
