// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/lab/engine_load_target.h"

#include <algorithm>

namespace engine {

EngineLoadTarget::EngineLoadTarget(RequestRunner &runner, Engine &engine)
    : m_runner(runner)
    , m_engine(engine)
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
    const double sentAt = now();
    m_open[m_engine.submit(requestOf(request))] = {index, sentAt};
}

std::vector<std::pair<std::size_t, LoadSample>> EngineLoadTarget::wait(double seconds)
{
    std::vector<std::pair<std::size_t, LoadSample>> ended;
    for (const Event &event : m_runner.waitForEvents(seconds)) {
        const auto *finished = std::get_if<RequestFinished>(&event);
        const auto open = finished ? m_open.find(finished->id) : m_open.end();
        if (open == m_open.end())
            continue;
        ended.emplace_back(open->second.index, sampleOf(*finished, open->second.sentAt, now()));
        m_open.erase(open);
    }
    takeSteps();
    return ended;
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
