// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/tune/timeline_card.h"

#include "ui/engine_client.h"
#include "ui/stats_history.h"
#include "ui/widgets/paint.h"

#include <QPainter>
#include <QTimerEvent>

#include <algorithm>

namespace ui {

namespace {

constexpr double rowHeight = 20;
constexpr double nameWidth = 58;
constexpr double leastSeconds = 10, mostSeconds = 120;
constexpr int scrollMs = 100;

QColor colorOf(RequestSpan::Phase phase, const Tokens &c, double &opacity)
{
    opacity = 1;
    switch (phase) {
    case RequestSpan::Phase::Queued:
        opacity = .5;
        return c.faint;
    case RequestSpan::Phase::Prefill:
        return Theme::series(1);
    case RequestSpan::Phase::Decode:
        opacity = .85;
        return Theme::series(0);
    case RequestSpan::Phase::Recompute:
        return c.bad;
    }
    return c.faint;
}

} // namespace

TimelineCard::TimelineCard(Theme &theme, EngineClient &client, StatsHistory &history, QWidget *parent)
    : Card(theme, tr("Requests over time"), parent)
    , m_client(client)
    , m_history(history)
{
    setFocusPolicy(Qt::NoFocus);
    setSummary(tr("grey queued · orange prefill · blue decode · red recomputed"));
    connect(&history, &StatsHistory::changed, this, &Card::scheduleUpdate);
}

void TimelineCard::showEvent(QShowEvent *event)
{
    Card::showEvent(event);
    m_scroll.start(scrollMs, this);
}

void TimelineCard::hideEvent(QHideEvent *event)
{
    Card::hideEvent(event);
    m_scroll.stop();
}

void TimelineCard::timerEvent(QTimerEvent *event)
{
    if (event->timerId() != m_scroll.timerId())
        Card::timerEvent(event);
    else if (m_client.activeRequests() > 0)
        scheduleUpdate();
}

// The oldest of the rows that fit begins the window, within sensible limits.
double TimelineCard::windowStart(double rows) const
{
    const auto &requests = m_history.requests();
    const auto shown = std::min<std::size_t>(requests.size(), std::size_t(std::max(1.0, rows)));
    double start = m_history.now() - leastSeconds;
    for (auto it = requests.end() - std::ptrdiff_t(shown); it != requests.end(); ++it) {
        if (!it->segments.empty())
            start = std::min(start, it->segments.front().begin);
    }
    return std::max(start, m_history.now() - mostSeconds);
}

void TimelineCard::paintContent(QPainter &painter, const QRectF &rect)
{
    const Tokens &c = theme().tokens();
    const auto &requests = m_history.requests();
    if (requests.empty()) {
        paint::empty(painter, theme(), rect, tr("A line appears for every request"),
                     tr("Ask something in a chat, or in several"));
        return;
    }
    const auto rows = std::size_t(std::max(1.0, (rect.height() - 18) / rowHeight));
    const std::size_t shown = std::min(requests.size(), rows), first = requests.size() - shown;
    const QRectF plot(rect.x() + nameWidth, rect.y(), rect.width() - nameWidth, rect.height() - 18);
    const double start = windowStart(double(rows)), span = std::max(1.0, m_history.now() - start);
    const auto x = [&](double time) { return plot.x() + plot.width() * std::clamp((time - start) / span, 0.0, 1.0); };
    for (std::size_t i = 0; i < shown; ++i) {
        const RequestSpan &request = requests[first + i];
        const double y = rect.y() + double(i) * rowHeight;
        paint::dot(painter, {rect.x() + 5, y + 9}, Theme::series(m_client.seriesOf(request.id)), 3.5);
        paint::text(painter, {rect.x() + 14, y, nameWidth - 18, 18}, QStringLiteral("#%1").arg(request.id),
                    theme().mono(11.5), c.muted);
        for (const RequestSpan::Segment &segment : request.segments) {
            double opacity = 1;
            const QColor color = colorOf(segment.phase, c, opacity);
            const double from = x(segment.begin), to = x(segment.end);
            if (segment.end > start)
                paint::bar(painter, {from, y + 3, std::max(1.5, to - from), 11}, color, 2, opacity);
        }
    }
    std::vector<paint::Mark> marks;
    for (const StatsHistory::Marker &marker : m_history.markers()) {
        if (marker.time > start)
            marks.push_back({x(marker.time), marker.text, marker.notice});
    }
    paint::markers(painter, theme(), plot.adjusted(0, 0, 0, 2), marks);
    paint::text(painter, {plot.x(), rect.bottom() - 14, 160, 16}, tr("%1 s ago").arg(qRound(span)), theme().ui(11),
                c.quiet);
    paint::text(painter, {plot.right() - 60, rect.bottom() - 14, 60, 16}, tr("now"), theme().ui(11), c.quiet,
                Qt::AlignRight);
}

} // namespace ui
