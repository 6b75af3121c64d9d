// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/lab/engine_load_target.h"

#include <algorithm>

namespace engine {
namespace {

LoadOutcome outcomeOf(const RequestFinished &finished)
{
    if (finished.reason == FinishReason::Cancelled)
        return LoadOutcome::Cancelled;
    if (finished.reason != FinishReason::Failed)
        return LoadOutcome::Completed;
    return finished.code == ErrorCode::Busy ? LoadOutcome::Rejected : LoadOutcome::Failed;
}

} // namespace

EngineLoadTarget::EngineLoadTarget(RequestRunner &runner, Engine &engine, int blockTokens)
    : m_runner(runner)
    , m_engine(engine)
    , m_usage(blockTokens)
{
    // Steps of earlier work say where the counters of this run begin.
    for (const StepStats &step : m_engine.takeSteps()) {
        m_preemptionsBefore = step.preemptions;
        m_queriesBefore = step.prefixQueryTokens;
        m_hitsBefore = step.prefixHitTokens;
    }
    m_last.preemptions = m_preemptionsBefore;
    m_last.prefixQueryTokens = m_queriesBefore;
    m_last.prefixHitTokens = m_hitsBefore;
}

double EngineLoadTarget::now() const
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - m_start).count();
}

void EngineLoadTarget::send(std::size_t index, const LoadRequest &request)
{
    Request wanted;
    if (request.ids.empty())
        wanted.prompt = request.prompt;
    else
        wanted.ids = request.ids;
    wanted.sampling.temperature = 0;
    wanted.sampling.ignoreEos = true;
    wanted.sampling.maxTokens = request.outputTokens;
    const double sentAt = now();
    m_open[m_engine.submit(std::move(wanted))] = {index, sentAt};
}

std::vector<std::pair<std::size_t, LoadSample>> EngineLoadTarget::wait(double seconds)
{
    std::vector<std::pair<std::size_t, LoadSample>> ended;
    for (const Event &event : m_runner.waitForEvents(seconds)) {
        const auto *finished = std::get_if<RequestFinished>(&event);
        const auto open = finished ? m_open.find(finished->id) : m_open.end();
        if (open == m_open.end())
            continue;
        ended.emplace_back(open->second.index, sampleOf(open->second, *finished));
        m_open.erase(open);
    }
    takeSteps();
    return ended;
}

LoadSample EngineLoadTarget::sampleOf(const Open &open, const RequestFinished &finished) const
{
    LoadSample sample;
    sample.outcome = outcomeOf(finished);
    sample.sentAt = open.sentAt;
    sample.endedAt = now();
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

void EngineLoadTarget::takeSteps()
{
    for (StepStats &step : m_engine.takeSteps()) {
        m_usage.add(step);
        m_figures.maxRunning = std::max(m_figures.maxRunning.value_or(0), step.running);
        m_figures.itlMs.insert(m_figures.itlMs.end(), step.itlMs.begin(), step.itlMs.end());
        m_last = std::move(step);
    }
}

void EngineLoadTarget::cancelAll()
{
    for (const auto &[id, open] : m_open)
        m_engine.cancel(id);
}

ServingFigures EngineLoadTarget::figures()
{
    takeSteps();
    ServingFigures figures = m_figures;
    figures.preemptions = m_last.preemptions - m_preemptionsBefore;
    const std::uint64_t queries = m_last.prefixQueryTokens - m_queriesBefore;
    if (queries > 0)
        figures.prefixHitRate =
            static_cast<double>(m_last.prefixHitTokens - m_hitsBefore) / static_cast<double>(queries);
    if (!m_usage.empty()) {
        figures.kvPeakUsage = m_usage.peak();
        figures.kvWaste = m_usage.waste();
    }
    return figures;
}

} // namespace engine
