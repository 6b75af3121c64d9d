// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/lab/relay_load_target.h"

#include <algorithm>
#include <utility>

namespace engine {

RelayLoadTarget::RelayLoadTarget(Owner owner)
    : m_owner(std::move(owner))
{
}

void RelayLoadTarget::submitted(std::size_t index, RequestId id)
{
    m_box.push(Submitted{index, id});
}

void RelayLoadTarget::finished(const RequestFinished &event)
{
    m_box.push(event);
}

void RelayLoadTarget::stepped(std::span<const StepStats> steps)
{
    m_box.pushAll(std::vector<Message>(steps.begin(), steps.end()));
}

void RelayLoadTarget::abandon()
{
    m_box.push(Abandoned{});
}

double RelayLoadTarget::now() const
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - m_start).count();
}

void RelayLoadTarget::send(std::size_t index, const LoadRequest &request)
{
    m_sentAt[index] = now();
    m_owner.submit(index, requestOf(request));
}

std::vector<std::pair<std::size_t, LoadSample>> RelayLoadTarget::wait(double seconds)
{
    const auto pause =
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
    m_box.waitUntil({}, std::chrono::steady_clock::now() + pause);
    Ended ended;
    for (const Message &message : m_box.takeAll())
        std::visit([&](const auto &one) { take(one, ended); }, message);
    return ended;
}

void RelayLoadTarget::take(const Submitted &message, Ended &)
{
    m_index[message.id] = message.index;
    m_own.insert(message.id);
}

void RelayLoadTarget::take(const RequestFinished &message, Ended &ended)
{
    const auto place = m_index.find(message.id);
    if (place == m_index.end())
        return;
    const std::size_t index = place->second;
    m_index.erase(place);
    ended.emplace_back(index, sampleOf(message, m_sentAt[index], now()));
    m_sentAt.erase(index);
    m_preemptions += static_cast<std::uint64_t>(message.usage.preemptions);
    m_promptTokens += message.usage.promptTokens;
    m_cachedTokens += message.usage.cachedTokens;
}

void RelayLoadTarget::take(const StepStats &message, Ended &)
{
    m_usage.add(message);
    m_figures.maxRunning = std::max(m_figures.maxRunning.value_or(0), message.running);
    for (std::size_t i = 0; i < message.itlMs.size(); ++i)
        if (m_own.contains(message.itlRequests[i]))
            m_figures.itlMs.push_back(message.itlMs[i]);
    for (const StepRow &row : message.rows)
        if (!m_own.contains(row.request))
            m_others.insert(row.request);
}

void RelayLoadTarget::take(const Abandoned &, Ended &ended)
{
    for (const auto &[index, sentAt] : std::exchange(m_sentAt, {})) {
        LoadSample sample;
        sample.outcome = LoadOutcome::Cancelled;
        sample.sentAt = sentAt;
        sample.endedAt = now();
        ended.emplace_back(index, std::move(sample));
    }
    m_index.clear();
}

ServingFigures RelayLoadTarget::figures()
{
    ServingFigures figures = m_figures;
    figures.preemptions = m_preemptions;
    if (m_promptTokens > 0)
        figures.prefixHitRate = static_cast<double>(m_cachedTokens) / static_cast<double>(m_promptTokens);
    if (!m_usage.empty()) {
        figures.kvPeakUsage = m_usage.peak();
        figures.kvWaste = m_usage.waste();
    }
    return figures;
}

} // namespace engine
