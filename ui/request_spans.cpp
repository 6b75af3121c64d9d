// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/request_spans.h"

#include <algorithm>

namespace ui {

namespace {

using Phase = RequestSpan::Phase;

constexpr std::size_t mostSegments = 400; // a request that pauses all the time must not grow without end

bool waits(Phase phase)
{
    return phase == Phase::Queued || phase == Phase::Preempted || phase == Phase::Paused;
}

/// Ends the wait that goes on, if one does.
void endWait(RequestSpan &span, double time)
{
    if (!span.segments.empty() && waits(span.segments.back().phase))
        span.segments.back().end = std::max(span.segments.back().begin, time);
}

} // namespace

double RequestSpan::endOf(std::size_t segment, double now) const
{
    const Segment &one = segments[segment];
    const bool lasts = !finished && segment + 1 == segments.size() && waits(one.phase);
    return lasts ? std::max(one.end, now) : one.end;
}

RequestSpan *RequestSpans::find(quint64 id)
{
    const auto it = std::find_if(m_spans.rbegin(), m_spans.rend(), [id](const RequestSpan &s) { return s.id == id; });
    return it == m_spans.rend() ? nullptr : &*it;
}

RequestSpan *RequestSpans::findOrAdd(quint64 id)
{
    if (RequestSpan *known = find(id))
        return known;
    if (m_spans.size() >= remembered) {
        const auto done = std::find_if(m_spans.begin(), m_spans.end(), [](const RequestSpan &s) { return s.finished; });
        if (done == m_spans.end())
            return nullptr;
        m_spans.erase(done);
    }
    RequestSpan added;
    added.id = id;
    m_spans.push_back(added);
    return &m_spans.back();
}

void RequestSpans::accept(const engine::RequestAccepted &accepted, bool guest)
{
    RequestSpan *span = findOrAdd(accepted.id);
    if (!span)
        return;
    span->client = QString::fromStdString(accepted.client);
    span->guest = guest;
    span->promptTokens = accepted.promptTokens;
    span->arrivedAt = accepted.arrivedAt;
    // Its first steps may have been told of before.
    const double end = span->segments.empty() ? accepted.arrivedAt : span->segments.front().begin;
    if (span->segments.empty() || span->segments.front().phase != Phase::Queued)
        span->segments.insert(span->segments.begin(), {Phase::Queued, std::min(accepted.arrivedAt, end), end, 0});
}

void RequestSpans::take(const engine::StepStats &step)
{
    const double begin = step.time - step.duration;
    for (const quint64 id : step.preempted) {
        RequestSpan *span = find(id);
        if (!span)
            continue;
        ++span->preemptions;
        endWait(*span, begin);
        const double from = span->segments.empty() ? begin : std::max(begin, span->segments.back().end);
        span->segments.push_back({Phase::Preempted, from, from, 0});
    }
    for (std::size_t i = 0; i < step.admitted.size(); ++i) {
        RequestSpan *span = findOrAdd(step.admitted[i]);
        if (!span)
            continue;
        endWait(*span, begin);
        if (i < step.admittedCached.size() && step.admittedCached[i] > 0)
            span->hits.push_back(
                {span->segments.empty() ? begin : std::max(begin, span->segments.back().end), step.admittedCached[i]});
    }
    for (const engine::StepRow &row : step.rows) {
        if (RequestSpan *span = findOrAdd(row.request))
            takeRow(*span, row, step);
    }
}

void RequestSpans::takeRow(RequestSpan &span, const engine::StepRow &row, const engine::StepStats &step)
{
    const double before = span.segments.empty() ? 0 : span.segments.back().end;
    const double begin = std::max(step.time - step.duration, before);
    const bool again = span.preemptions > 0 || span.outputTokens > 0;
    const Phase phase = row.prefillTokens == 0 ? Phase::Decode : again ? Phase::Recompute : Phase::Prefill;
    endWait(span, begin);
    const bool stoodStill = span.lastStep != 0 && step.step > span.lastStep + 1 && !span.segments.empty()
        && !waits(span.segments.back().phase) && span.segments.size() < mostSegments;
    if (stoodStill)
        span.segments.push_back({Phase::Paused, span.segments.back().end, begin, 0});
    if (span.segments.empty() || span.segments.back().phase != phase)
        span.segments.push_back({phase, begin, step.time, 0});
    span.segments.back().end = step.time;
    span.segments.back().tokens += row.prefillTokens + row.decodeTokens;
    span.promptTokens = row.promptTokens;
    span.outputTokens = std::max({span.outputTokens, row.contextTokens - row.promptTokens + 1, 0});
    span.lastStep = step.step;
}

void RequestSpans::finish(const engine::RequestFinished &end)
{
    RequestSpan *span = find(end.id);
    if (!span)
        return;
    if (span->arrivedAt >= 0)
        endWait(*span, span->arrivedAt + end.timings.e2eMs / 1000);
    span->finished = true;
    span->outputTokens = end.usage.completionTokens;
    span->reason = QString::fromLatin1(engine::toString(end.reason));
}

} // namespace ui
