// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/tune/timeline_card.h"

#include "ui/engine_client.h"
#include "ui/format.h"
#include "ui/stats_history.h"
#include "ui/widgets/paint.h"

#include <QAccessible>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace ui {

namespace {

using Phase = RequestSpan::Phase;

constexpr double rowHeight = 20;
constexpr double barHeight = 11;
constexpr double lineHeight = 18;
constexpr double nameWidth = 58;
constexpr double hitWidth = 6;
constexpr double leastSeconds = 10, mostSeconds = 120;
constexpr int scrollMs = 100;
constexpr Phase phases[] = {Phase::Queued,    Phase::Prefill,   Phase::Decode,
                            Phase::Preempted, Phase::Recompute, Phase::Paused};

QString seconds(double value)
{
    return TimelineCard::tr("%1 s").arg(value, 0, 'f', 2);
}

QString segmentText(const RequestSpan &request, std::size_t index, double now)
{
    const RequestSpan::Segment &segment = request.segments[index];
    const double end = request.endOf(index, now), origin = request.segments.front().begin;
    QStringList parts{
        TimelineCard::tr("%1 for %2").arg(TimelineCard::phaseName(segment.phase), seconds(end - segment.begin))};
    if (segment.tokens > 0)
        parts << format::counted(segment.tokens, TimelineCard::tr("token"), TimelineCard::tr("tokens"));
    for (const RequestSpan::CacheHit &hit : request.hits) {
        if (std::abs(hit.time - segment.begin) < 1e-6 && segment.tokens > 0)
            parts << TimelineCard::tr("%1 before it from the cache").arg(format::count(hit.tokens));
    }
    parts << TimelineCard::tr("%1 to %2 after it came").arg(seconds(segment.begin - origin), seconds(end - origin));
    return parts.join(QStringLiteral(", "));
}

QString wholeText(const RequestSpan &request)
{
    QStringList parts{TimelineCard::tr("prompt %1").arg(format::count(request.promptTokens))};
    if (request.cachedTokens() > 0)
        parts << TimelineCard::tr("%1 cached").arg(format::count(request.cachedTokens()));
    parts << format::counted(request.outputTokens, TimelineCard::tr("token"), TimelineCard::tr("tokens"));
    if (request.preemptions > 0)
        parts << TimelineCard::tr("preempted %1 times").arg(request.preemptions);
    if (request.finished)
        parts << TimelineCard::tr("ended: %1").arg(request.reason);
    return parts.join(QStringLiteral(", "));
}

} // namespace

QString TimelineCard::phaseName(Phase phase)
{
    switch (phase) {
    case Phase::Queued:
        return tr("queued");
    case Phase::Prefill:
        return tr("prefill");
    case Phase::Decode:
        return tr("decode");
    case Phase::Preempted:
        return tr("preempted");
    case Phase::Recompute:
        return tr("computed again");
    case Phase::Paused:
        return tr("paused");
    }
    return {};
}

TimelineCard::TimelineCard(Theme &theme, EngineClient &client, StatsHistory &history, QWidget *parent)
    : Card(theme, tr("Requests over time"), parent)
    , m_client(client)
    , m_history(history)
{
    setMouseTracking(true);
    setToolTip(tr("Point at a part, or choose one with the arrow keys, to read what it is"));
    connect(&history, &StatsHistory::changed, this, [this] {
        if (isVisible())
            refresh();
    });
    refresh();
}

void TimelineCard::showEvent(QShowEvent *event)
{
    Card::showEvent(event);
    refresh();
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

void TimelineCard::refresh()
{
    const auto &requests = m_history.requests();
    const auto open = std::count_if(requests.begin(), requests.end(), [](const auto &r) { return !r.finished; });
    setSummary(requests.empty() ? QString()
                                : tr("%1 of the last %2 still run")
                                      .arg(format::count(qint64(open)), format::count(qint64(requests.size()))));
    scheduleUpdate();
}

const RequestSpan *TimelineCard::chosen() const
{
    const auto &requests = m_history.requests();
    const auto it = std::find_if(requests.begin(), requests.end(), [this](const auto &r) { return r.id == m_request; });
    return m_request == 0 || it == requests.end() ? nullptr : &*it;
}

QString TimelineCard::readout() const
{
    const RequestSpan *request = chosen();
    if (!request)
        return summary();
    const QString name = request->client.isEmpty() ? m_client.requestName(request->id) : request->client;
    const QString who = QStringLiteral("#%1 ").arg(request->id) + (name.isEmpty() ? QString() : name + u' ');
    const bool part = m_part >= 0 && std::size_t(m_part) < request->segments.size();
    return who + QStringLiteral("· ")
        + (part ? segmentText(*request, std::size_t(m_part), m_history.now()) : wholeText(*request));
}

void TimelineCard::choose(quint64 request, int part)
{
    if (request == m_request && part == m_part)
        return;
    m_request = request;
    m_part = part;
    setAccessibleDescription(readout());
    QAccessibleEvent event(this, QAccessible::DescriptionChanged);
    QAccessible::updateAccessibility(&event);
    scheduleUpdate();
}

// From none, up begins with the newest request and down with the oldest one shown.
void TimelineCard::step(int by)
{
    const auto &requests = m_history.requests();
    if (requests.empty())
        return;
    const auto last = std::ptrdiff_t(requests.size()) - 1;
    std::ptrdiff_t index = by < 0 ? last + 1 : std::ptrdiff_t(frameIn(contentRect()).first) - 1;
    for (std::ptrdiff_t i = 0; i <= last; ++i) {
        if (requests[std::size_t(i)].id == m_request)
            index = i;
    }
    choose(requests[std::size_t(std::clamp<std::ptrdiff_t>(index + by, 0, last))].id, -1);
}

void TimelineCard::keyPressEvent(QKeyEvent *event)
{
    const RequestSpan *request = chosen();
    const int parts = request ? int(request->segments.size()) : 0;
    const int all = int(m_history.requests().size());
    switch (event->key()) {
    case Qt::Key_Up:
        return step(-1);
    case Qt::Key_Down:
        return step(1);
    case Qt::Key_Home:
        return step(-all - 1);
    case Qt::Key_End:
        return step(all + 1);
    case Qt::Key_Left:
        return request ? choose(m_request, std::max(m_part - 1, -1)) : step(-1);
    case Qt::Key_Right:
        return request ? choose(m_request, std::min(m_part + 1, parts - 1)) : step(-1);
    case Qt::Key_Escape:
        if (request)
            return choose(0, -1);
        [[fallthrough]];
    default:
        Card::keyPressEvent(event);
    }
}

void TimelineCard::mouseMoveEvent(QMouseEvent *event)
{
    const Frame frame = frameIn(contentRect());
    const QPointF at = event->position();
    const auto &requests = m_history.requests();
    const double row = (at.y() - frame.plot.y()) / rowHeight;
    if (row < 0 || row >= double(frame.rows) || frame.first + std::size_t(row) >= requests.size())
        return choose(0, -1);
    const RequestSpan &request = requests[frame.first + std::size_t(row)];
    int part = -1;
    for (std::size_t i = 0; i < request.segments.size(); ++i) {
        const double end = frame.x(request.endOf(i, m_history.now()));
        if (at.x() >= frame.x(request.segments[i].begin) - 1 && at.x() <= end + 1)
            part = int(i);
    }
    choose(request.id, part);
}

void TimelineCard::leaveEvent(QEvent *event)
{
    Card::leaveEvent(event);
    if (!hasFocus())
        choose(0, -1);
}

void TimelineCard::focusOutEvent(QFocusEvent *event)
{
    Card::focusOutEvent(event);
    choose(0, -1);
    update();
}

double TimelineCard::Frame::x(double time) const
{
    return plot.x() + plot.width() * std::clamp((time - start) / span, 0.0, 1.0);
}

double TimelineCard::Frame::y(std::size_t request) const
{
    return plot.y() + double(request - first) * rowHeight;
}

// The newest requests that fit, or those around the chosen one; the oldest of them begins the window of time, within
// sensible limits.
TimelineCard::Frame TimelineCard::frameIn(const QRectF &rect) const
{
    const auto &requests = m_history.requests();
    const double legend = paintLegend(nullptr, rect);
    Frame frame;
    frame.plot = rect.adjusted(nameWidth, legend, 0, -2 * lineHeight);
    const auto fit = std::size_t(std::max(1.0, frame.plot.height() / rowHeight));
    frame.rows = std::min(requests.size(), fit);
    frame.first = requests.size() - frame.rows;
    for (std::size_t i = 0; i < frame.first; ++i) {
        if (m_request != 0 && requests[i].id == m_request)
            frame.first = i;
    }
    const double now = m_history.now();
    frame.start = now - leastSeconds;
    for (std::size_t i = frame.first; i < frame.first + frame.rows; ++i) {
        if (!requests[i].segments.empty())
            frame.start = std::min(frame.start, requests[i].segments.front().begin);
    }
    const bool old = frame.first + frame.rows < requests.size(); // looked up: as far back as it lies
    if (!old)
        frame.start = std::max(frame.start, now - mostSeconds);
    frame.span = std::max(1.0, now - frame.start);
    return frame;
}

// Every phase has a form of its own beside its colour.
void TimelineCard::paintSegment(QPainter &painter, const QRectF &bar, Phase phase) const
{
    const Tokens &c = theme().tokens();
    const QRectF thin(bar.x(), bar.center().y() - 1.5, bar.width(), 3);
    switch (phase) {
    case Phase::Queued:
        paint::bar(painter, thin, c.faint, 1.5);
        break;
    case Phase::Prefill:
        paint::bar(painter, bar, Theme::series(1), 2);
        break;
    case Phase::Decode:
        paint::bar(painter, bar.adjusted(0, 2, 0, -2), Theme::series(0), 2);
        break;
    case Phase::Preempted:
        paint::frame(painter, bar, Qt::transparent, c.bad, 2);
        break;
    case Phase::Recompute:
        paint::bar(painter, bar, c.bad, 2);
        break;
    case Phase::Paused:
        for (double x = bar.x(); x < bar.right(); x += 6)
            paint::bar(painter, {x, thin.y(), std::min(3.0, bar.right() - x), 3}, c.warn, 1);
        break;
    }
}

void TimelineCard::paintRequest(QPainter &painter, const Frame &frame, std::size_t index) const
{
    const Tokens &c = theme().tokens();
    const RequestSpan &request = m_history.requests()[index];
    const double y = frame.y(index), left = frame.plot.x() - nameWidth;
    const bool isChosen = request.id == m_request && m_request != 0;
    if (isChosen)
        paint::bar(painter, {left, y - 1, frame.plot.right() - left, rowHeight - 1}, c.raised, 4);
    paint::dot(painter, {left + 5, y + 9}, Theme::series(m_client.seriesOf(request.id)), 3.5);
    paint::text(painter, {left + 14, y, nameWidth - 18, 18}, QStringLiteral("#%1").arg(request.id), theme().mono(11.5),
                isChosen ? c.text : c.muted);
    const double now = m_history.now();
    for (std::size_t i = 0; i < request.segments.size(); ++i) {
        const double end = request.endOf(i, now);
        if (end <= frame.start)
            continue;
        const double from = frame.x(request.segments[i].begin);
        const QRectF bar(from, y + 3, std::max(1.5, frame.x(end) - from), barHeight);
        paintSegment(painter, bar, request.segments[i].phase);
        if (isChosen && int(i) == m_part)
            paint::frame(painter, bar.adjusted(-2, -2, 2, 2), Qt::transparent, c.text, 3);
    }
    for (const RequestSpan::CacheHit &hit : request.hits) {
        if (hit.time > frame.start)
            paint::frame(painter, {frame.x(hit.time) - hitWidth, y + 2, hitWidth, barHeight + 2}, c.panel,
                         theme().seriesText(2), 2);
    }
}

// The signs with their names, in as many lines as they need; returns the height. Without a painter only measures.
double TimelineCard::paintLegend(QPainter *painter, const QRectF &rect) const
{
    constexpr double sign = 18, gap = 14;
    const QFont font = theme().ui(11.5);
    double x = rect.x(), y = rect.y();
    const auto next = [&](const QString &name, const auto &draw) {
        const double width = sign + 6 + paint::advance(font, name) + 2;
        if (x > rect.x() && x + width > rect.right()) {
            x = rect.x();
            y += lineHeight;
        }
        if (painter) {
            draw(QRectF(x, y + 3, sign, barHeight));
            paint::text(*painter, {x + sign + 6, y, width, lineHeight}, name, font, theme().tokens().muted);
        }
        x += width + gap;
    };
    for (const Phase phase : phases)
        next(phaseName(phase), [&](const QRectF &bar) { paintSegment(*painter, bar, phase); });
    next(tr("from the cache"), [&](const QRectF &bar) {
        paint::frame(*painter, {bar.right() - hitWidth, bar.y() - 1, hitWidth, barHeight + 2}, theme().tokens().panel,
                     theme().seriesText(2), 2);
    });
    return y - rect.y() + lineHeight + 4;
}

void TimelineCard::paintContent(QPainter &painter, const QRectF &rect)
{
    const Tokens &c = theme().tokens();
    if (m_history.requests().empty()) {
        paint::empty(painter, theme(), rect, tr("A line appears for every request"),
                     tr("Ask something in a chat, or in several"));
        return;
    }
    (void)paintLegend(&painter, rect);
    const Frame frame = frameIn(rect);
    for (std::size_t i = 0; i < frame.rows; ++i)
        paintRequest(painter, frame, frame.first + i);
    std::vector<paint::Mark> marks;
    for (const StatsHistory::Marker &marker : m_history.markers()) {
        if (marker.time > frame.start)
            marks.push_back({frame.x(marker.time), marker.text, marker.notice});
    }
    paint::markers(painter, theme(), frame.plot.adjusted(0, 0, 0, 2), marks);
    const double axis = rect.bottom() - 2 * lineHeight + 3;
    paint::text(painter, {frame.plot.x(), axis, 160, 16}, tr("%1 s ago").arg(qRound(frame.span)), theme().ui(11),
                c.quiet);
    paint::text(painter, {frame.plot.right() - 60, axis, 60, 16}, tr("now"), theme().ui(11), c.quiet, Qt::AlignRight);
    if (chosen())
        paint::text(painter, {rect.x(), rect.bottom() - lineHeight + 3, rect.width(), lineHeight}, readout(),
                    theme().ui(12), c.text);
}

} // namespace ui
