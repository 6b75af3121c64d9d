// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/lab/comparison.h"

#include "engine/api/error.h"

#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

namespace engine {
namespace {

using Summary = std::optional<LatencySummary>;

template<Summary LoadReport::*latency, double LatencySummary::*point>
std::optional<double> pointOf(const LoadReport &report)
{
    const Summary &summary = report.*latency;
    return summary ? std::optional((*summary).*point) : std::nullopt;
}

template<double LoadReport::*figure> std::optional<double> rateOf(const LoadReport &report)
{
    return report.*figure;
}

template<Summary LoadReport::*latency>
constexpr std::array<LoadFigure, 3> percentilesOf(const std::array<std::string_view, 6> &names)
{
    return {LoadFigure{names[0], names[1], "ms", BetterWhen::Lower, pointOf<latency, &LatencySummary::p50>},
            LoadFigure{names[2], names[3], "ms", BetterWhen::Lower, pointOf<latency, &LatencySummary::p95>},
            LoadFigure{names[4], names[5], "ms", BetterWhen::Lower, pointOf<latency, &LatencySummary::p99>}};
}

constexpr auto ttft =
    percentilesOf<&LoadReport::ttftMs>({"ttft_p50", "TTFT P50", "ttft_p95", "TTFT P95", "ttft_p99", "TTFT P99"});
constexpr auto itl =
    percentilesOf<&LoadReport::itlMs>({"itl_p50", "ITL P50", "itl_p95", "ITL P95", "itl_p99", "ITL P99"});
constexpr auto tpot =
    percentilesOf<&LoadReport::tpotMs>({"tpot_p50", "TPOT P50", "tpot_p95", "TPOT P95", "tpot_p99", "TPOT P99"});
constexpr auto e2e =
    percentilesOf<&LoadReport::e2eMs>({"e2e_p50", "E2E P50", "e2e_p95", "E2E P95", "e2e_p99", "E2E P99"});

constexpr std::array figures{
    LoadFigure{"output_throughput", "output throughput", "tok/s", BetterWhen::Higher,
               rateOf<&LoadReport::outputThroughput>},
    LoadFigure{"total_throughput", "total throughput", "tok/s", BetterWhen::Higher,
               rateOf<&LoadReport::totalThroughput>},
    LoadFigure{"request_throughput", "request throughput", "req/s", BetterWhen::Higher,
               rateOf<&LoadReport::requestThroughput>},
    ttft[0],
    ttft[1],
    ttft[2],
    itl[0],
    itl[1],
    itl[2],
    tpot[0],
    tpot[1],
    tpot[2],
    e2e[0],
    e2e[1],
    e2e[2],
    LoadFigure{"prefix_hit_rate", "prefix hit rate", "share", BetterWhen::Higher,
               [](const LoadReport &report) { return report.serving.prefixHitRate; }},
    LoadFigure{"kv_waste", "KV waste", "share", BetterWhen::Lower,
               [](const LoadReport &report) { return report.serving.kvWaste; }},
    LoadFigure{"kv_peak", "KV peak", "share", BetterWhen::Lower,
               [](const LoadReport &report) { return report.serving.kvPeakUsage; }},
    LoadFigure{"preemptions", "preemptions", "", BetterWhen::Lower,
               [](const LoadReport &report) {
                   return report.serving.preemptions ? std::optional(static_cast<double>(*report.serving.preemptions))
                                                     : std::nullopt;
               }},
    LoadFigure{"refused", "refused requests", "", BetterWhen::Lower,
               [](const LoadReport &report) { return std::optional(static_cast<double>(report.rejected)); }},
};

double meanOf(std::span<const double> values)
{
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// The probability of |T| <= sqrt(degrees) * tan(angle).
double centralProbability(double angle, int degrees)
{
    const double sine = std::sin(angle);
    const double cosine = std::cos(angle);
    const bool odd = degrees % 2 == 1;
    double term = odd ? cosine : 1;
    double sum = degrees > 1 ? term : 0;
    for (int k = odd ? 3 : 2; k <= degrees - 2; k += 2) {
        term *= cosine * cosine * (k - 1) / k;
        sum += term;
    }
    return odd ? 2 / std::numbers::pi * (angle + sine * sum) : sine * sum;
}

} // namespace

std::span<const LoadFigure> loadFigures()
{
    return figures;
}

double studentQuantile(double p, int degrees)
{
    CHECK(p >= 0.5 && p < 1 && degrees >= 1);
    double low = 0;
    double high = std::numbers::pi / 2;
    for (int i = 0; i < 64; ++i) { // halving down to the last bit
        const double middle = (low + high) / 2;
        (centralProbability(middle, degrees) < 2 * p - 1 ? low : high) = middle;
    }
    return std::sqrt(static_cast<double>(degrees)) * std::tan(low);
}

std::optional<Interval> meanInterval(std::span<const double> values, double confidence)
{
    if (values.size() < 2)
        return std::nullopt;
    const double mean = meanOf(values);
    double squares = 0;
    for (const double value : values)
        squares += (value - mean) * (value - mean);
    const auto count = static_cast<double>(values.size());
    const double error = std::sqrt(squares / (count - 1) / count);
    const double reach = error * studentQuantile(0.5 + confidence / 2, static_cast<int>(values.size()) - 1);
    return Interval{mean - reach, mean + reach};
}

Difference differenceOf(std::span<const double> before, std::span<const double> after, double confidence)
{
    CHECK(before.size() == after.size() && !before.empty());
    std::vector<double> changes(before.size());
    for (std::size_t i = 0; i < changes.size(); ++i)
        changes[i] = after[i] - before[i];
    return {static_cast<int>(changes.size()), meanOf(before), meanOf(after), meanOf(changes),
            meanInterval(changes, confidence)};
}

} // namespace engine
