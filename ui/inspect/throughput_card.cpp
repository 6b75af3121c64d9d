// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/inspect/throughput_card.h"

#include "ui/engine_client.h"
#include "ui/format.h"
#include "ui/stats_history.h"
#include "ui/widgets/paint.h"
#include "ui/widgets/plot.h"

#include <QPainter>
#include <QTimerEvent>

#include <algorithm>
#include <cmath>

namespace ui {

namespace {

constexpr int scrollMs = 100;

// 1, 2 or 5 times a power of ten, at least `value`: an axis that does not twitch.
double roundTop(double value)
{
    const double decade = std::pow(10, std::floor(std::log10(std::max(value, 1.0))));
    for (const double step : {1.0, 2.0, 5.0, 10.0}) {
        if (value <= step * decade)
            return step * decade;
    }
    return 10 * decade;
}

QString latency(double ms)
{
    return std::isnan(ms) ? QStringLiteral("–") : format::number(ms);
}

} // namespace

ThroughputCard::ThroughputCard(Theme &theme, EngineClient &client, StatsHistory &history, QWidget *parent)
    : LiveCard(theme, QStringLiteral("throughput"), tr("Throughput"), parent)
    , m_client(client)
    , m_history(history)
{
    setSummary(tr("last 60 s"));
    setToolTip(tr("TTFT: time to first token. Gap: time between two tokens of one answer. P95: 95 of 100 are faster."));
    connect(&m_history, &StatsHistory::changed, this, &Card::scheduleUpdate);
}

void ThroughputCard::setWatching(bool on)
{
    m_client.watchSteps(on);
    if (on)
        m_scroll.start(scrollMs, this);
    else
        m_scroll.stop();
}

// Without steps the plot goes on scrolling until nothing but zero is left in it.
void ThroughputCard::timerEvent(QTimerEvent *event)
{
    if (event->timerId() != m_scroll.timerId()) {
        LiveCard::timerEvent(event);
        return;
    }
    if (m_history.activeWithin((isExpanded() ? expandedSeconds : cardSeconds) + 2)) {
        scheduleUpdate();
        if (isExpanded())
            feedPlot();
    }
}

void ThroughputCard::expandedChanged(bool expanded)
{
    if (expanded && !m_plot) {
        m_plot = new Plot(theme(), tr("Throughput plot"), tr("seconds"), tr("tokens per second"), this);
        m_plot->addLine(tr("decode"), 0, tr("tok/s"), true);
        m_plot->addLine(tr("prefill"), 1, tr("tok/s"));
    }
    if (m_plot)
        m_plot->setVisible(expanded);
    setSummary(expanded ? tr("last 10 min") : tr("last 60 s"));
    if (expanded)
        feedPlot();
}

void ThroughputCard::feedPlot()
{
    const auto decode = m_history.series(StatsHistory::Figure::DecodeRate, expandedSeconds);
    const auto prefill = m_history.series(StatsHistory::Figure::PrefillRate, expandedSeconds);
    const double end = std::floor(m_history.now() / StatsHistory::binSeconds) * StatsHistory::binSeconds;
    std::vector<double> x(decode.size());
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = end - double(x.size() - i) * StatsHistory::binSeconds;
    m_plot->setData(0, x, std::vector<double>(decode.begin(), decode.end()));
    m_plot->setData(1, x, std::vector<double>(prefill.begin(), prefill.end()));
    m_plot->setFollowRange(std::max(0.0, end - cardSeconds * 2), std::max(end, 1.0));
    QList<Plot::Marker> markers;
    for (const StatsHistory::Marker &marker : m_history.markers())
        markers.append({marker.time, marker.text});
    m_plot->setMarkers(markers);
}

void ThroughputCard::layoutContent()
{
    if (!m_plot)
        return;
    const QRectF content = contentRect();
    m_plot->setGeometry(content.adjusted(0, 118, 0, 0).toRect());
}

bool ThroughputCard::exportTo(const QString &path, QString *why)
{
    return m_plot && isExpanded() ? m_plot->exportTo(path, why) : LiveCard::exportTo(path, why);
}

QString ThroughputCard::exportFilters() const
{
    return isExpanded() ? tr("Picture (*.png);;PDF document (*.pdf);;Values (*.csv)") : LiveCard::exportFilters();
}

void ThroughputCard::paintFigures(QPainter &painter, const QRectF &rect) const
{
    const Theme &t = theme();
    const Percentiles first = m_history.timeToFirstToken(), gap = m_history.interTokenGap();
    const bool running = m_client.activeRequests() > 0;
    struct Item {
        QString name, value, unit;
        QColor color;
    };
    const Item items[] = {
        {tr("decode"), running ? format::count(std::llround(m_history.decodeRate())) : QStringLiteral("0"), tr("tok/s"),
         t.seriesText(0)},
        {tr("prefill"), running ? format::count(std::llround(m_history.prefillRate())) : QStringLiteral("0"),
         tr("tok/s"), t.seriesText(1)},
        {tr("TTFT P95"), latency(first.p95), tr("ms"), t.tokens().text},
        {tr("gap P95"), latency(gap.p95), tr("ms"), t.tokens().text}};
    const double step = std::min(rect.width() / 3.9, 180.0);
    for (int i = 0; i < 4; ++i)
        paint::figure(painter, t, rect.topLeft() + QPointF(i * step, 14), items[i].name, items[i].value, items[i].unit,
                      items[i].color);
}

void ThroughputCard::paintRates(QPainter &painter, const QRectF &plot)
{
    const auto decode = m_history.series(StatsHistory::Figure::DecodeRate, cardSeconds);
    const auto prefill = m_history.series(StatsHistory::Figure::PrefillRate, cardSeconds);
    const float most =
        std::max(*std::max_element(decode.begin(), decode.end()), *std::max_element(prefill.begin(), prefill.end()));
    if (most <= 0) {
        paint::empty(painter, theme(), plot, tr("Tokens per second appear here"), tr("Ask something in a chat"));
        m_top = 0;
        return;
    }
    paint::grid(painter, theme(), plot);
    const double wanted = roundTop(most * 1.05);
    m_top = theme().reduceMotion() || m_top == 0 ? wanted : m_top + (wanted - m_top) * .35;
    paint::line(painter, plot, {decode, Theme::series(0), 1.6, true}, 0, m_top);
    paint::line(painter, plot, {prefill, Theme::series(1), 1.4, false}, 0, m_top);
    paint::text(painter, QRectF(plot.x(), plot.y() - 1, 120, 14),
                tr("%1 tok/s").arg(format::count(std::llround(wanted))), theme().ui(10.5), theme().tokens().quiet);
    for (const StatsHistory::Marker &marker : m_history.markers()) {
        const double age = m_history.now() - marker.time;
        if (age < cardSeconds)
            paint::marker(painter, theme(), plot, plot.right() - plot.width() * age / cardSeconds, marker.text);
    }
}

// Both latencies with all three percentiles; only the large view has the room.
void ThroughputCard::paintPercentiles(QPainter &painter, const QRectF &rect) const
{
    const Theme &t = theme();
    const auto row = [&](double y, const QString &name, const Percentiles &p) {
        paint::text(painter, {rect.x(), y, 170, 18}, name, t.ui(12), t.tokens().muted);
        const QString text = tr("P50 %1   P95 %2   P99 %3 ms   (%4)")
                                 .arg(latency(p.p50), latency(p.p95), latency(p.p99),
                                      format::counted(p.samples, tr("sample"), tr("samples")));
        paint::text(painter, {rect.x() + 170, y, rect.width() - 170, 18}, text, t.mono(12), t.tokens().text);
    };
    row(rect.y(), tr("time to first token"), m_history.timeToFirstToken());
    row(rect.y() + 22, tr("gap between tokens"), m_history.interTokenGap());
}

void ThroughputCard::paintContent(QPainter &painter, const QRectF &rect)
{
    paintFigures(painter, rect);
    if (isExpanded()) {
        paintPercentiles(painter, rect.adjusted(0, 60, 0, 0));
        return;
    }
    const Theme &t = theme();
    const QRectF plot(rect.x(), rect.y() + 52, rect.width(), rect.height() - 52 - 20);
    paintRates(painter, plot);
    const Percentiles first = m_history.timeToFirstToken(), gap = m_history.interTokenGap();
    QStringList known; // without samples there is nothing to say
    for (const auto &[name, p] : {std::pair(tr("TTFT"), first), std::pair(tr("gap"), gap)})
        if (p.samples > 0)
            known << tr("%1 %2 / %3 / %4 ms").arg(name, latency(p.p50), latency(p.p95), latency(p.p99));
    if (known.isEmpty())
        return;
    const QString line = known.join(QStringLiteral("   "));
    paint::text(painter, {rect.x(), rect.bottom() - 14, 130, 16}, tr("P50 / P95 / P99"), t.ui(11), t.tokens().muted);
    paint::text(painter, {rect.x() + 110, rect.bottom() - 14, rect.width() - 110, 16}, line, t.ui(11), t.tokens().muted,
                Qt::AlignRight);
}

} // namespace ui
