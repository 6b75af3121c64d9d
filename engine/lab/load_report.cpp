// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/lab/load_report.h"

#include "engine/api/events.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

namespace engine {
namespace {

constexpr double ms = 1000.0;

bool isGood(const LoadSample &sample, const GoodputLimits &limits)
{
    return (!limits.ttftMs || sample.ttftMs <= *limits.ttftMs) && (!limits.tpotMs || sample.tpotMs <= *limits.tpotMs)
        && (!limits.e2eMs || sample.e2eMs <= *limits.e2eMs);
}

void countOutcome(const LoadSample &sample, LoadReport &report)
{
    switch (sample.outcome) {
    case LoadOutcome::Completed:
        ++report.completed;
        report.inputTokens += sample.promptTokens;
        report.outputTokens += sample.outputTokens;
        break;
    case LoadOutcome::Failed:
        if (report.failed++ == 0)
            report.firstError = sample.error;
        break;
    case LoadOutcome::Rejected:
        if (report.rejected++ == 0)
            report.firstRefusal = sample.error;
        break;
    case LoadOutcome::Cancelled:
        ++report.cancelled;
        break;
    }
}

double durationOf(std::span<const LoadSample> samples)
{
    if (samples.empty())
        return 0;
    double begin = samples.front().sentAt;
    double end = samples.front().endedAt;
    for (const LoadSample &sample : samples) {
        begin = std::min(begin, sample.sentAt);
        end = std::max(end, sample.endedAt);
    }
    return end - begin;
}

void fillLatencies(std::span<const LoadSample> samples, LoadReport &report)
{
    std::vector<double> ttft;
    std::vector<double> tpot;
    std::vector<double> itl = report.serving.itlMs;
    std::vector<double> e2e;
    std::vector<double> queue;
    std::vector<double> rejected;
    for (const LoadSample &sample : samples) {
        if (sample.outcome == LoadOutcome::Rejected)
            rejected.push_back((sample.endedAt - sample.sentAt) * ms);
        if (sample.outcome != LoadOutcome::Completed)
            continue;
        ttft.push_back(sample.ttftMs);
        e2e.push_back(sample.e2eMs);
        if (sample.outputTokens > 1)
            tpot.push_back(sample.tpotMs);
        if (sample.queueMs)
            queue.push_back(*sample.queueMs);
        itl.insert(itl.end(), sample.itlMs.begin(), sample.itlMs.end());
    }
    report.ttftMs = latencyOf(std::move(ttft));
    report.tpotMs = latencyOf(std::move(tpot));
    report.itlMs = latencyOf(std::move(itl));
    report.e2eMs = latencyOf(std::move(e2e));
    report.queueMs = latencyOf(std::move(queue));
    report.rejectMs = latencyOf(std::move(rejected));
}

[[noreturn]] void wrongGoodput(const std::string &text)
{
    throw Error(ErrorCode::InvalidArgument,
                "--goodput: found \"" + text
                    + "\", wanted limits in milliseconds by name, such as ttft:500,tpot:50 (ttft, tpot, e2e)");
}

LoadOutcome outcomeOf(const RequestFinished &finished)
{
    if (finished.reason == FinishReason::Cancelled)
        return LoadOutcome::Cancelled;
    if (finished.reason != FinishReason::Failed)
        return LoadOutcome::Completed;
    return finished.code == ErrorCode::Busy ? LoadOutcome::Rejected : LoadOutcome::Failed;
}

} // namespace

LoadSample sampleOf(const RequestFinished &finished, double sentAt, double endedAt)
{
    LoadSample sample;
    sample.outcome = outcomeOf(finished);
    sample.sentAt = sentAt;
    sample.endedAt = endedAt;
    sample.promptTokens = finished.usage.promptTokens;
    sample.outputTokens = finished.usage.completionTokens;
    sample.cachedTokens = finished.usage.cachedTokens;
    sample.ttftMs = finished.timings.ttftMs;
    sample.tpotMs = finished.timings.tpotMs;
    sample.e2eMs = finished.timings.e2eMs;
    sample.queueMs = finished.timings.queueMs;
    sample.error = finished.error;
    return sample;
}

void measureOutputs(LoadSample &sample, std::span<const double> outputTimes)
{
    CHECK(!outputTimes.empty());
    sample.ttftMs = (outputTimes.front() - sample.sentAt) * ms;
    sample.e2eMs = (outputTimes.back() - sample.sentAt) * ms;
    sample.tpotMs = sample.outputTokens > 1 ? (sample.e2eMs - sample.ttftMs) / (sample.outputTokens - 1) : 0;
    for (std::size_t i = 1; i < outputTimes.size(); ++i)
        sample.itlMs.push_back((outputTimes[i] - outputTimes[i - 1]) * ms);
}

double percentileOf(std::span<const double> sorted, double p)
{
    const double place = p / 100.0 * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, sorted.size() - 1);
    return sorted[below] + (sorted[above] - sorted[below]) * (place - static_cast<double>(below));
}

std::optional<LatencySummary> latencyOf(std::vector<double> values)
{
    if (values.empty())
        return std::nullopt;
    std::ranges::sort(values);
    LatencySummary summary;
    summary.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
    summary.p50 = percentileOf(values, 50);
    summary.p90 = percentileOf(values, 90);
    summary.p95 = percentileOf(values, 95);
    summary.p99 = percentileOf(values, 99);
    return summary;
}

GoodputLimits parseGoodput(const std::string &text)
{
    GoodputLimits limits;
    std::string_view rest = text;
    while (true) {
        const std::size_t comma = rest.find(',');
        const std::string_view part = rest.substr(0, comma);
        const std::size_t colon = part.find(':');
        if (colon == std::string_view::npos)
            wrongGoodput(text);
        const std::string_view name = part.substr(0, colon);
        const std::string_view number = part.substr(colon + 1);
        double value = 0;
        const auto parsed = std::from_chars(number.data(), number.data() + number.size(), value);
        if (parsed.ec != std::errc() || parsed.ptr != number.data() + number.size() || !(value > 0)
            || !std::isfinite(value))
            wrongGoodput(text);
        if (name == "ttft")
            limits.ttftMs = value;
        else if (name == "tpot")
            limits.tpotMs = value;
        else if (name == "e2e" || name == "e2el")
            limits.e2eMs = value;
        else
            wrongGoodput(text);
        if (comma == std::string_view::npos)
            return limits;
        rest.remove_prefix(comma + 1);
    }
}

LoadReport summarize(std::span<const LoadSample> samples, ServingFigures serving, const GoodputLimits &limits)
{
    LoadReport report;
    report.serving = std::move(serving);
    int good = 0;
    for (const LoadSample &sample : samples) {
        countOutcome(sample, report);
        good += sample.outcome == LoadOutcome::Completed && isGood(sample, limits) ? 1 : 0;
    }
    report.durationSeconds = durationOf(samples);
    fillLatencies(samples, report);
    const double seconds = report.durationSeconds;
    const auto rate = [seconds](double count) { return seconds > 0 ? count / seconds : 0; };
    report.requestThroughput = rate(report.completed);
    report.outputThroughput = rate(static_cast<double>(report.outputTokens));
    report.totalThroughput = rate(static_cast<double>(report.inputTokens + report.outputTokens));
    if (limits.any())
        report.goodput = rate(good);
    return report;
}

} // namespace engine
