// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/latency_book.h"

#include "ui/engine_client.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ui {

Percentiles percentilesOf(std::vector<float> samples)
{
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    if (samples.empty())
        return {none, none, none, 0};
    auto from = samples.begin();
    const auto at = [&](double share) {
        const double rank = std::ceil(share * double(samples.size())) - 1;
        const auto place = samples.begin() + std::ptrdiff_t(std::max(rank, 0.0));
        std::nth_element(from, place, samples.end());
        from = place; // what follows is not smaller
        return double(*place);
    };
    Percentiles result{};
    result.p50 = at(.50);
    result.p95 = at(.95);
    result.p99 = at(.99);
    result.samples = int(samples.size());
    return result;
}

void LatencyBook::Samples::add(double ms)
{
    if (values.size() < mostSamples)
        values.push_back(float(ms));
    else
        values[next++ % mostSamples] = float(ms);
    ++count;
    isOld = true;
}

const Percentiles &LatencyBook::Samples::percentiles()
{
    if (std::exchange(isOld, false)) {
        cached = percentilesOf(values);
        cached.samples = count;
    }
    return cached;
}

void LatencyBook::clear()
{
    m_all = {};
    m_groups.clear();
}

// Null for a request without a group, which counts among all only.
LatencyBook::Group *LatencyBook::groupOf(quint64 request, const EngineClient &client)
{
    const QString key = client.requestGroup(request);
    if (key.isEmpty())
        return nullptr;
    auto it = std::find_if(m_groups.begin(), m_groups.end(), [&](const Group &group) { return group.key == key; });
    if (it == m_groups.end()) {
        if (m_groups.size() >= mostGroups)
            m_groups.pop_back();
        m_groups.push_front({key, {}, -1, {}, {}});
        it = m_groups.begin();
    }
    it->name = client.requestName(request);
    it->series = client.seriesOf(request);
    return &*it;
}

void LatencyBook::take(const engine::StepStats &step, const EngineClient &client)
{
    for (std::size_t i = 0; i < step.ttftMs.size(); ++i) {
        m_all.ttft.add(step.ttftMs[i]);
        Group *group = i < step.ttftRequests.size() ? groupOf(step.ttftRequests[i], client) : nullptr;
        if (!group)
            continue;
        group->ttft.add(step.ttftMs[i]);
        const auto it = std::find_if(m_groups.begin(), m_groups.end(), [&](const Group &g) { return &g == group; });
        std::rotate(m_groups.begin(), it, it + 1); // a new answer brings its chat to the top
    }
    for (std::size_t i = 0; i < step.itlMs.size(); ++i) {
        m_all.gap.add(step.itlMs[i]);
        if (Group *group = i < step.itlRequests.size() ? groupOf(step.itlRequests[i], client) : nullptr)
            group->gap.add(step.itlMs[i]);
    }
}

std::vector<LatencyBook::Row> LatencyBook::rows()
{
    std::vector<Row> rows;
    rows.push_back({{}, {}, -1, m_all.ttft.percentiles(), m_all.gap.percentiles()});
    for (Group &group : m_groups)
        rows.push_back({group.key, group.name, group.series, group.ttft.percentiles(), group.gap.percentiles()});
    return rows;
}

} // namespace ui
