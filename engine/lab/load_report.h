// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace engine {

struct RequestFinished;

/// How one request of a load ended.
enum class LoadOutcome { Completed, Failed, Rejected, Cancelled };

/// What one request came to. Times are seconds on the clock of the run, durations milliseconds.
struct LoadSample {
    LoadOutcome outcome = LoadOutcome::Failed;
    double sentAt = 0;
    double endedAt = 0;
    int promptTokens = 0;
    int outputTokens = 0;
    int cachedTokens = 0;
    double ttftMs = 0; ///< sent to first output
    double tpotMs = 0; ///< (e2e - ttft) / (output tokens - 1); 0 with one token
    double e2eMs = 0;  ///< sent to last output
    std::optional<double> queueMs;
    std::vector<double> itlMs; ///< gaps between outputs, where they were seen one by one
    std::string error;         ///< of a failed or rejected one
};

/// What an engine says of a request that was sent and has ended at these times.
[[nodiscard]] LoadSample sampleOf(const RequestFinished &finished, double sentAt, double endedAt);

/// Fills the durations of `sample` from the times at which its outputs were seen. \pre `outputTimes` is not empty,
/// outputTokens is set
void measureOutputs(LoadSample &sample, std::span<const double> outputTimes);

/// Mean and percentiles (linear between the two nearest values, as NumPy's default).
struct LatencySummary {
    double mean = 0;
    double p50 = 0;
    double p90 = 0;
    double p95 = 0;
    double p99 = 0;
};
/// `p` in 0..100 of sorted values. \pre not empty
[[nodiscard]] double percentileOf(std::span<const double> sorted, double p);
/// Nothing when there are no values.
[[nodiscard]] std::optional<LatencySummary> latencyOf(std::vector<double> values);

/// Limits in milliseconds that a good request keeps; absent ones are not looked at.
struct GoodputLimits {
    std::optional<double> ttftMs;
    std::optional<double> tpotMs;
    std::optional<double> e2eMs;
    [[nodiscard]] bool any() const { return ttftMs || tpotMs || e2eMs; }
};
/// "ttft:500,tpot:50"; names ttft, tpot, e2e (or e2el). \throws Error InvalidArgument naming the part
[[nodiscard]] GoodputLimits parseGoodput(const std::string &text);

/// What only the serving side knows; absent where it does not tell.
struct ServingFigures {
    std::optional<int> maxRunning;
    std::optional<std::uint64_t> preemptions;
    std::optional<double> prefixHitRate; ///< hit tokens / asked tokens
    std::optional<double> kvPeakUsage;   ///< 0..1 of the pool
    std::optional<double> kvWaste;       ///< share of the allocated token slots that hold no token, mean over time
    std::vector<double> itlMs;           ///< gaps that the engine measured itself
};

/// The result of a load, as `lathe-cli load` prints it.
struct LoadReport {
    int completed = 0;
    int failed = 0;
    int rejected = 0;
    int cancelled = 0;
    double durationSeconds = 0; ///< first request sent to last one ended
    std::int64_t inputTokens = 0;
    std::int64_t outputTokens = 0;
    double requestThroughput = 0;  ///< completed requests a second
    double outputThroughput = 0;   ///< output tokens a second
    double totalThroughput = 0;    ///< input and output tokens a second
    std::optional<double> goodput; ///< completed requests a second within all limits; absent without limits
    std::optional<LatencySummary> ttftMs;
    std::optional<LatencySummary> tpotMs;
    std::optional<LatencySummary> itlMs;
    std::optional<LatencySummary> e2eMs;
    std::optional<LatencySummary> queueMs;
    std::optional<LatencySummary> rejectMs; ///< sent to refused
    ServingFigures serving;
    std::string firstError;   ///< of the first failed request
    std::string firstRefusal; ///< of the first rejected one
};

/// Latencies are of completed requests only.
[[nodiscard]] LoadReport summarize(std::span<const LoadSample> samples, ServingFigures serving,
                                   const GoodputLimits &limits);

} // namespace engine
