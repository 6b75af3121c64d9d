// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/load_output.h"

#include <cstdio>
#include <optional>

namespace cli {
namespace {

constexpr int width = 78;

Json latencyJson(const std::optional<engine::LatencySummary> &latency)
{
    if (!latency)
        return nullptr;
    return Json{{"mean", latency->mean},
                {"p50", latency->p50},
                {"p90", latency->p90},
                {"p95", latency->p95},
                {"p99", latency->p99}};
}

template<typename Value> Json orNull(const std::optional<Value> &value)
{
    return value ? Json(*value) : Json(nullptr);
}

std::string title(const std::string &text, char rule)
{
    const std::string middle = text.empty() ? "" : " " + text + " ";
    const auto left = static_cast<std::size_t>(width) - middle.size();
    return std::string(left / 2, rule) + middle + std::string(left - left / 2, rule) + '\n';
}

std::string row(const char *name, double value, int decimals)
{
    char line[120];
    std::snprintf(line, sizeof line, "%-50s %27.*f\n", name, decimals, value);
    return line;
}

template<typename Value> std::string rowOf(const char *name, const std::optional<Value> &value, int decimals)
{
    if (value)
        return row(name, static_cast<double>(*value), decimals);
    char line[120];
    std::snprintf(line, sizeof line, "%-50s %27s\n", name, "n/a");
    return line;
}

std::string latencyRows(const char *heading, const char *name, const std::optional<engine::LatencySummary> &latency)
{
    if (!latency)
        return {};
    const std::pair<const char *, double> values[] = {{"Mean", latency->mean},
                                                      {"Median", latency->p50},
                                                      {"P90", latency->p90},
                                                      {"P95", latency->p95},
                                                      {"P99", latency->p99}};
    std::string text = title(heading, '-');
    for (const auto &[label, value] : values)
        text += row((std::string(label) + " " + name + " (ms):").c_str(), value, 2);
    return text;
}

} // namespace

Json loadJson(const engine::LoadReport &r)
{
    return Json{{"completed", r.completed},
                {"failed", r.failed},
                {"rejected", r.rejected},
                {"duration_s", r.durationSeconds},
                {"request_throughput", r.requestThroughput},
                {"output_throughput", r.outputThroughput},
                {"total_throughput", r.totalThroughput},
                {"goodput", orNull(r.goodput)},
                {"ttft_ms", latencyJson(r.ttftMs)},
                {"tpot_ms", latencyJson(r.tpotMs)},
                {"itl_ms", latencyJson(r.itlMs)},
                {"e2e_ms", latencyJson(r.e2eMs)},
                {"queue_ms", latencyJson(r.queueMs)},
                {"max_running", orNull(r.serving.maxRunning)},
                {"preemptions", orNull(r.serving.preemptions)},
                {"prefix_hit_rate", orNull(r.serving.prefixHitRate)},
                {"kv_peak_usage", orNull(r.serving.kvPeakUsage)},
                {"kv_waste", orNull(r.serving.kvWaste)},
                {"cancelled", r.cancelled},
                {"input_tokens", r.inputTokens},
                {"output_tokens", r.outputTokens},
                {"reject_ms", latencyJson(r.rejectMs)}};
}

std::string loadText(const engine::LoadReport &r)
{
    std::string text = title("Serving Benchmark Result", '=');
    text += row("Successful requests:", r.completed, 0);
    text += row("Failed requests:", r.failed, 0);
    text += row("Rejected requests:", r.rejected, 0);
    text += row("Benchmark duration (s):", r.durationSeconds, 2);
    text += row("Total input tokens:", static_cast<double>(r.inputTokens), 0);
    text += row("Total generated tokens:", static_cast<double>(r.outputTokens), 0);
    text += row("Request throughput (req/s):", r.requestThroughput, 2);
    if (r.goodput)
        text += row("Request goodput (req/s, all limits kept):", *r.goodput, 2);
    text += row("Output token throughput (tok/s):", r.outputThroughput, 2);
    text += row("Total token throughput (tok/s):", r.totalThroughput, 2);
    text += latencyRows("Time to First Token = first output - sent", "TTFT", r.ttftMs);
    text += latencyRows("Time per Output Token = (E2E - TTFT) / (output tokens - 1)", "TPOT", r.tpotMs);
    text += latencyRows("Inter-Token Latency = gap between two outputs", "ITL", r.itlMs);
    text += latencyRows("End-to-End Latency = last output - sent", "E2EL", r.e2eMs);
    text += latencyRows("Queueing = admission - sent", "queue", r.queueMs);
    text += title("Engine", '-');
    text += rowOf("Most running at once:", r.serving.maxRunning, 0);
    text += rowOf("Preemptions:", r.serving.preemptions, 0);
    text += rowOf("Prefix cache hits / prompt tokens:", r.serving.prefixHitRate, 4);
    text += rowOf("Peak use of the KV pool:", r.serving.kvPeakUsage, 4);
    text += rowOf("KV waste = empty slots / slots of requests:", r.serving.kvWaste, 4);
    text += title("", '=');
    return text;
}

} // namespace cli
