// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/inspect/latency_card.h"

#include "ui/engine_client.h"
#include "ui/format.h"
#include "ui/stats_history.h"
#include "ui/widgets/paint.h"

#include <QFile>
#include <QPainter>
#include <QTextStream>

#include <algorithm>
#include <cmath>

namespace ui {

namespace {

constexpr double rowHeight = 21;
constexpr double headHeight = 34;
constexpr double figureWidth = 50;
constexpr double groupGap = 12;
constexpr double mostWidth = 860;

QString figure(double ms)
{
    return std::isnan(ms) ? QStringLiteral("–") : format::milliseconds(ms);
}

/// Left edges of the six columns, counted from the right.
double columnX(const QRectF &rect, int column)
{
    return rect.right() - (6 - column) * figureWidth - (column < 3 ? groupGap : 0);
}

} // namespace

LatencyCard::LatencyCard(Theme &theme, EngineClient &client, StatsHistory &history, QWidget *parent)
    : LiveCard(theme, QStringLiteral("latency"), tr("Latency"), parent)
    , m_client(client)
    , m_history(history)
{
    setToolTip(tr("Half of the times are at most P50, 95 of 100 at most P95, 99 of 100 at most P99. Counted since the "
                  "model was loaded."));
    connect(&m_history, &StatsHistory::changed, this, [this] {
        if (isVisible())
            refresh();
    });
    refresh();
}

void LatencyCard::setWatching(bool on)
{
    m_client.watchSteps(on);
    if (on)
        refresh();
}

void LatencyCard::refresh()
{
    m_rows = m_history.latencies().rows();
    const LatencyBook::Row &all = m_rows.front();
    setSummary(all.ttft.samples == 0 ? tr("no answer yet")
                                     : tr("%1 · %2").arg(format::counted(all.ttft.samples, tr("answer"), tr("answers")),
                                                         format::counted(all.gap.samples, tr("gap"), tr("gaps"))));
    if (all.ttft.samples > 0)
        setAccessibleDescription(tr("%1; time to first token P50 %2, P95 %3, P99 %4; between tokens P50 %5, P95 %6, "
                                    "P99 %7")
                                     .arg(summary(), figure(all.ttft.p50), figure(all.ttft.p95), figure(all.ttft.p99),
                                          figure(all.gap.p50), figure(all.gap.p95), figure(all.gap.p99)));
    scheduleUpdate();
}

QString LatencyCard::nameOf(const LatencyBook::Row &row)
{
    if (row.group.isEmpty())
        return tr("All requests");
    return row.name.isEmpty() ? tr("New chat") : row.name;
}

void LatencyCard::paintRow(QPainter &painter, const QRectF &rect, const LatencyBook::Row &row) const
{
    const Tokens &c = theme().tokens();
    double x = rect.x();
    if (row.series >= 0) {
        paint::dot(painter, {x + 5, rect.center().y()}, Theme::series(row.series), 3.5);
        x += 16;
    }
    paint::text(painter, {x, rect.y(), columnX(rect, 0) - x - 4, rect.height()}, nameOf(row),
                theme().ui(12, row.series < 0 ? QFont::DemiBold : QFont::Normal), c.text);
    const double values[] = {row.ttft.p50, row.ttft.p95, row.ttft.p99, row.gap.p50, row.gap.p95, row.gap.p99};
    for (int i = 0; i < 6; ++i)
        paint::text(painter, {columnX(rect, i), rect.y(), figureWidth, rect.height()}, figure(values[i]),
                    theme().mono(11), i % 3 == 1 ? c.text : c.muted, Qt::AlignRight);
}

void LatencyCard::paintContent(QPainter &painter, const QRectF &content)
{
    QRectF rect = content;
    rect.setWidth(std::min(rect.width(), mostWidth)); // names and figures stay near each other
    const Tokens &c = theme().tokens();
    if (m_rows.front().ttft.samples == 0) {
        paint::empty(painter, theme(), rect, tr("Percentiles appear with the first answer"),
                     tr("Ask something in a chat"));
        return;
    }
    const QFont font = theme().ui(11.5);
    for (int group = 0; group < 2; ++group) {
        const QRectF head(columnX(rect, 3 * group), rect.y() - 2, 3 * figureWidth, 17);
        paint::text(painter, head, group == 0 ? tr("first token") : tr("between tokens"), font, c.muted,
                    Qt::AlignRight);
        painter.fillRect(QRectF(head.x() + 8, head.bottom(), head.width() - 8, 1), c.line);
    }
    const QString names[] = {tr("P50"), tr("P95"), tr("P99")};
    for (int i = 0; i < 6; ++i)
        paint::text(painter, {columnX(rect, i), rect.y() + 16, figureWidth, 17}, names[i % 3], font, c.quiet,
                    Qt::AlignRight);
    const auto fit = std::size_t(std::max(1.0, (rect.height() - headHeight) / rowHeight));
    const bool all = m_rows.size() <= fit;
    const std::size_t shown = all ? m_rows.size() : std::max<std::size_t>(fit - 1, 1);
    for (std::size_t i = 0; i < shown; ++i)
        paintRow(painter, {rect.x(), rect.y() + headHeight + double(i) * rowHeight, rect.width(), rowHeight},
                 m_rows[i]);
    if (!all && fit > shown)
        paint::text(painter,
                    {rect.x() + 16, rect.y() + headHeight + double(shown) * rowHeight, rect.width() - 16, rowHeight},
                    tr("and %1 more; enlarge the card to see them").arg(format::count(qint64(m_rows.size() - shown))),
                    font, c.muted);
}

QString LatencyCard::exportFilters() const
{
    return tr("Picture (*.png);;Values (*.csv)");
}

bool LatencyCard::exportTo(const QString &path, QString *why)
{
    if (!path.endsWith(QLatin1String(".csv"), Qt::CaseInsensitive))
        return LiveCard::exportTo(path, why);
    QFile file(path);
    if (!file.open(QIODevice::WriteOnly | QIODevice::Text)) {
        *why = tr("“%1” cannot be written: %2").arg(path, file.errorString());
        return false;
    }
    QTextStream out(&file);
    out << "requests,ttft_p50_ms,ttft_p95_ms,ttft_p99_ms,answers,itl_p50_ms,itl_p95_ms,itl_p99_ms,gaps\n";
    for (const LatencyBook::Row &row : m_rows) {
        out << u'"' << QString(nameOf(row)).replace(u'"', QStringLiteral("\"\"")) << u'"';
        for (const Percentiles &p : {row.ttft, row.gap}) {
            for (const double value : {p.p50, p.p95, p.p99}) {
                out << u',';
                if (!std::isnan(value)) // a field without a value is empty
                    out << value;
            }
            out << u',' << p.samples;
        }
        out << u'\n';
    }
    return true;
}

} // namespace ui
