// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/lab/load_report.h"

#include <optional>
#include <span>
#include <string_view>

namespace engine {

/// Which direction of a figure is an improvement.
enum class BetterWhen { Higher, Lower };

/// One figure of a load that comparisons look at.
struct LoadFigure {
    std::string_view key;   ///< "output_throughput", "ttft_p95"
    std::string_view label; ///< "output throughput", "TTFT P95"
    std::string_view unit;  ///< "tok/s", "req/s", "ms", "share" (0..1), or empty for counts
    BetterWhen better = BetterWhen::Lower;
    std::optional<double> (*of)(const LoadReport &) = nullptr;
};
/// All of them, in the order of reports.
[[nodiscard]] std::span<const LoadFigure> loadFigures();

/// Where a mean lies with some confidence.
struct Interval {
    double low = 0;
    double high = 0;
    [[nodiscard]] bool holdsZero() const { return low <= 0 && high >= 0; }
};

/// The t at which Student's distribution reaches `p`. \pre 0.5 <= p < 1, degrees >= 1
/// Source: Abramowitz and Stegun, 26.7.3 and 26.7.4 (the distribution for whole degrees of freedom).
[[nodiscard]] double studentQuantile(double p, int degrees);

/// Student's interval of the mean of `values`, taken as independent and about normal; nothing with fewer than two.
[[nodiscard]] std::optional<Interval> meanInterval(std::span<const double> values, double confidence = 0.95);

/// What changed from one setting to another, measured in pairs of rounds that lie beside each other in time, so that
/// whatever drifts slowly meets both alike.
struct Difference {
    int pairs = 0;
    double before = 0;                ///< mean
    double after = 0;                 ///< mean
    double change = 0;                ///< after - before
    std::optional<Interval> interval; ///< of `change`; absent with one pair
    /// False when the interval holds 0, or there is none.
    [[nodiscard]] bool seen() const { return interval && !interval->holdsZero(); }
};
/// Value i of both is of pair i. \pre equal sizes, at least 1
[[nodiscard]] Difference differenceOf(std::span<const double> before, std::span<const double> after,
                                      double confidence = 0.95);

} // namespace engine
