// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/inspect/batch_card.h"

#include "ui/engine_client.h"
#include "ui/format.h"
#include "ui/stats_history.h"
#include "ui/widgets/paint.h"
#include "ui/widgets/plot.h"

#include <QPainter>

#include <algorithm>
#include <cmath>

namespace ui {

namespace {

constexpr double trendHeight = 34;
constexpr double batchFoot = 52;
constexpr double nameWidth = 76;

QString rowLabel(const engine::StepRow &row)
{
    if (row.prefillTokens > 0)
        return BatchCard::tr("prefill %1 / %2").arg(format::count(row.prefillTokens), format::count(row.promptTokens));
    return BatchCard::tr("decode · %1").arg(format::count(row.contextTokens));
}

} // namespace

BatchCard::BatchCard(Theme &theme, EngineClient &client, StatsHistory &history, QWidget *parent)
    : LiveCard(theme, QStringLiteral("batch"), tr("Batch"), parent)
    , m_client(client)
    , m_history(history)
{
    setToolTip(tr("What one step of the engine works on: a row for each request, against the limits of a step."));
    connect(&m_history, &StatsHistory::changed, this, [this] {
        if (isVisible())
            refresh();
    });
    refresh();
}

void BatchCard::setWatching(bool on)
{
    m_client.watchSteps(on);
    if (on)
        refresh();
}

// The last step's rows are history as soon as their requests ended.
void BatchCard::refresh()
{
    m_rows.clear();
    const engine::StepStats *step = m_history.lastStep();
    int tokens = 0, ofClients = 0;
    for (const engine::StepRow &row : step ? step->rows : std::vector<engine::StepRow>()) {
        if (!m_client.isActive(row.request))
            continue;
        const QString name = QStringLiteral("#%1").arg(row.request);
        const bool guest = m_client.isGuest(row.request);
        ofClients += guest ? 1 : 0;
        m_rows.append({name, rowLabel(row), m_client.seriesOf(row.request), row.prefillTokens, row.decodeTokens,
                       guest ? m_client.requestName(row.request) : QString()});
        tokens += row.prefillTokens + row.decodeTokens;
    }
    setTitle(step ? tr("Batch, step %1").arg(format::count(qint64(step->step))) : tr("Batch"));
    if (step && !m_rows.isEmpty())
        setSummary(tr("%1 of %2 tokens · %3 of %4 sequences")
                       .arg(format::count(tokens), format::count(step->maxNumBatchedTokens),
                            format::count(m_rows.size()), format::count(step->maxNumSeqs))
                   + (ofClients > 0 ? tr(" · %1 of clients").arg(format::count(ofClients)) : QString()));
    else
        setSummary(tr("nothing runs"));
    if (isExpanded())
        feedPlot();
    scheduleUpdate();
}

void BatchCard::expandedChanged(bool expanded)
{
    if (expanded && !m_plot) {
        m_plot = new Plot(theme(), tr("Requests plot"), tr("seconds"), tr("requests"), this);
        m_plot->addLine(tr("running"), 0, {}, true);
        m_plot->addLine(tr("waiting"), 1, {});
        m_plot->setWholeNumbers();
    }
    if (m_plot)
        m_plot->setVisible(expanded);
    if (expanded)
        feedPlot();
}

void BatchCard::feedPlot()
{
    const auto running = m_history.series(StatsHistory::Figure::Running, expandedSeconds);
    const auto waiting = m_history.series(StatsHistory::Figure::Waiting, expandedSeconds);
    const double end = std::floor(m_history.now() / StatsHistory::binSeconds) * StatsHistory::binSeconds;
    std::vector<double> x(running.size());
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = end - double(x.size() - i) * StatsHistory::binSeconds;
    m_plot->setData(0, x, std::vector<double>(running.begin(), running.end()));
    m_plot->setData(1, x, std::vector<double>(waiting.begin(), waiting.end()));
    m_plot->setFollowRange(std::max(0.0, end - 2 * cardSeconds), std::max(end, 1.0));
}

void BatchCard::layoutContent()
{
    if (m_plot) {
        const QRectF content = contentRect();
        m_plot->setGeometry(
            QRectF(content.x(), content.y() + content.height() * .5, content.width(), content.height() * .5).toRect());
    }
}

bool BatchCard::exportTo(const QString &path, QString *why)
{
    return m_plot && isExpanded() ? m_plot->exportTo(path, why) : LiveCard::exportTo(path, why);
}

QString BatchCard::exportFilters() const
{
    return isExpanded() ? tr("Picture (*.png);;PDF document (*.pdf);;Values (*.csv)") : LiveCard::exportFilters();
}

void BatchCard::paintLimit(QPainter &painter, const QRectF &rect, const QString &name, int value, int limit) const
{
    const Tokens &c = theme().tokens();
    paint::text(painter, {rect.x(), rect.y(), nameWidth, rect.height()}, name, theme().ui(11.5), c.muted);
    const QRectF track(rect.x() + nameWidth, rect.center().y() - 3, rect.width() - nameWidth - 100, 6);
    paint::bar(painter, track, c.raised);
    const double share = limit > 0 ? std::min(1.0, double(value) / limit) : 0;
    if (share > 0)
        paint::bar(painter, {track.x(), track.y(), std::max(4.0, track.width() * share), 6},
                   share >= 1 ? c.warn : c.accent);
    paint::text(painter, {track.right() + 8, rect.y(), 92, rect.height()},
                QStringLiteral("%1 / %2").arg(format::count(value), format::count(limit)), theme().mono(11), c.muted,
                Qt::AlignRight);
}

void BatchCard::paintContent(QPainter &painter, const QRectF &rect)
{
    const Tokens &c = theme().tokens();
    const engine::StepStats *step = m_history.lastStep();
    const double trend = isExpanded() ? rect.height() * .5 + 30 : trendHeight;
    const QRectF rows(rect.x(), rect.y() + 2, rect.width(), rect.height() - batchFoot - trend - 8);
    if (m_rows.isEmpty())
        paint::empty(painter, theme(), rows, tr("A row appears for every running request"),
                     tr("Ask something in a chat"));
    else
        batch_rows::paint(painter, theme(), rows, m_rows);

    int tokens = 0;
    for (const BatchRow &row : m_rows)
        tokens += row.prefillTokens + row.decodeTokens;
    const engine::BatchLimits limits = m_client.model() ? m_client.model()->effective.limits : m_client.config().limits;
    const double foot = rows.bottom() + 6;
    paintLimit(painter, {rect.x(), foot, rect.width(), 18}, tr("tokens"), tokens,
               step ? step->maxNumBatchedTokens : limits.maxNumBatchedTokens);
    paintLimit(painter, {rect.x(), foot + 20, rect.width(), 18}, tr("sequences"), int(m_rows.size()),
               step ? step->maxNumSeqs : limits.maxNumSeqs);
    const int active = m_client.activeRequests(), now = std::min(active, step ? step->running : 0);
    if (isExpanded()) { // the figures name the lines of the plot below
        const double y = rect.bottom() - rect.height() * .5 - 22;
        paint::text(painter, {rect.x(), y, 92, 18}, tr("running %1").arg(now), theme().ui(12), theme().seriesText(0));
        paint::text(painter, {rect.x() + 92, y, 92, 18}, tr("waiting %1").arg(active - now), theme().ui(12),
                    theme().seriesText(1));
        return;
    }
    const QRectF plot(rect.x() + nameWidth, rect.bottom() - trendHeight + 4, rect.width() - nameWidth - 100,
                      trendHeight - 6);
    const auto running = m_history.series(StatsHistory::Figure::Running, cardSeconds);
    const auto waiting = m_history.series(StatsHistory::Figure::Waiting, cardSeconds);
    const float most = std::max(
        {1.f, *std::max_element(running.begin(), running.end()), *std::max_element(waiting.begin(), waiting.end())});
    paint::text(painter, {rect.x(), plot.y(), nameWidth, plot.height()}, tr("last 60 s"), theme().ui(11.5), c.muted);
    paint::grid(painter, theme(), plot, 2);
    paint::line(painter, plot, {running, Theme::series(0), 1.4, true}, 0, most * 1.05);
    paint::line(painter, plot, {waiting, Theme::series(1), 1.4, false}, 0, most * 1.05);
    paint::text(painter, {plot.right() + 8, plot.y() - 3, 92, 16}, tr("running %1").arg(now), theme().ui(11),
                theme().seriesText(0), Qt::AlignRight);
    paint::text(painter, {plot.right() + 8, plot.y() + 13, 92, 16}, tr("waiting %1").arg(active - now), theme().ui(11),
                theme().seriesText(1), Qt::AlignRight);
}

} // namespace ui
