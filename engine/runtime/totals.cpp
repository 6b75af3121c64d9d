// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/totals.h"

#include <algorithm>
#include <cmath>

namespace engine {

namespace {
constexpr double msPerSecond = 1000.0;
}

void countStep(EngineTotals &totals, const StepStats &step)
{
    totals.steps = step.step;
    totals.threads = step.threads;
    totals.maxRunning = std::max(totals.maxRunning, step.running);
    totals.promptTokens += static_cast<std::uint64_t>(step.answeredPromptTokens);
    totals.generationTokens += step.ttftMs.size() + step.itlMs.size();
    totals.kvSlotSeconds += static_cast<double>(step.kvSlots) * step.duration;
    totals.kvEmptySeconds += static_cast<double>(step.kvSlotsEmpty) * step.duration;
    totals.latencies.stepTokens.observe(step.prefillTokens + step.decodeTokens);
    for (const double ms : step.ttftMs)
        totals.latencies.ttft.observe(ms / msPerSecond);
    for (const double ms : step.itlMs)
        totals.latencies.itl.observe(ms / msPerSecond);
}

void countFinished(EngineTotals &totals, const RequestFinished &finished)
{
    ++totals.finished[static_cast<std::size_t>(finished.reason)];
    if (finished.reason == FinishReason::Failed)
        totals.refusedBusy += finished.code == ErrorCode::Busy ? 1 : 0;
    if (finished.reason == FinishReason::Failed || finished.reason == FinishReason::Cancelled)
        return;
    const Timings &timings = finished.timings;
    LatencyHistograms &latencies = totals.latencies;
    latencies.e2e.observe(timings.e2eMs / msPerSecond);
    latencies.queue.observe(timings.queueMs / msPerSecond);
    latencies.prefill.observe(timings.prefillMs / msPerSecond);
    latencies.decode.observe(timings.decodeMs / msPerSecond);
    latencies.inference.observe((timings.prefillMs + timings.decodeMs) / msPerSecond);
    latencies.promptTokens.observe(finished.usage.promptTokens);
    latencies.computedTokens.observe(finished.usage.promptTokens - finished.usage.cachedTokens);
    latencies.generationTokens.observe(finished.usage.completionTokens);
    latencies.askedTokens.observe(finished.maxTokens);
    if (finished.choices > 0) {
        latencies.choices.observe(finished.choices);
        latencies.longestChoice.observe(std::max(finished.longestChoice, finished.usage.completionTokens));
    }
    if (finished.usage.completionTokens > 1)
        latencies.tpot.observe(timings.tpotMs / msPerSecond);
}

double estimatedWaitSeconds(const EngineTotals &totals, int waiting, int running)
{
    constexpr double least = 1;
    constexpr double most = 600;
    const LatencyHistograms &latencies = totals.latencies;
    const double served = static_cast<double>(std::max<std::uint64_t>(latencies.decode.count, 1));
    const double secondsEach = (latencies.prefill.sum + latencies.decode.sum) / served;
    return std::clamp(std::ceil(secondsEach * (waiting + 1) / std::max(running, 1)), least, most);
}

} // namespace engine
