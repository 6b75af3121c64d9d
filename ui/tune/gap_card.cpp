// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/tune/gap_card.h"

#include "ui/format.h"
#include "ui/stats_history.h"
#include "ui/widgets/paint.h"

#include <QPainter>

#include <algorithm>
#include <cmath>

namespace ui {

namespace {

constexpr int binCount = 40;

} // namespace

GapCard::GapCard(Theme &theme, StatsHistory &history, QWidget *parent)
    : Card(theme, tr("Inter-token gap"), parent)
    , m_history(history)
{
    setFocusPolicy(Qt::NoFocus);
    connect(&history, &StatsHistory::changed, this, &Card::scheduleUpdate);
}

std::vector<int> GapCard::histogram(const std::vector<float> &values, double top, int bins)
{
    std::vector<int> counts(std::size_t(bins), 0);
    for (const float value : values) {
        const int bin = std::clamp(int(double(value) / top * bins), 0, bins - 1);
        ++counts[std::size_t(bin)];
    }
    return counts;
}

void GapCard::paintContent(QPainter &painter, const QRectF &rect)
{
    const Tokens &c = theme().tokens();
    const Percentiles p = m_history.interTokenGap();
    if (p.samples == 0) {
        setSummary(tr("no tokens in the last minute"));
        paint::empty(painter, theme(), rect, tr("The time between two tokens appears here"),
                     tr("Ask something in a chat"));
        return;
    }
    setSummary(
        tr("P50 %1 · P95 %2 · P99 %3 ms").arg(format::number(p.p50), format::number(p.p95), format::number(p.p99)));
    const double top = std::max(1.0, p.p99 * 1.25);
    const std::vector<int> counts = histogram(m_history.gaps(), top, binCount);
    const double most = std::max(1, *std::max_element(counts.begin(), counts.end()));
    const QRectF plot = rect.adjusted(2, 22, -2, -18);
    const double width = plot.width() / binCount;
    for (int i = 0; i < binCount; ++i) {
        const double height = plot.height() * counts[std::size_t(i)] / most;
        if (height > 0)
            paint::bar(painter,
                       {plot.x() + i * width, plot.bottom() - std::max(1.0, height), std::max(1.0, width - 2),
                        std::max(1.0, height)},
                       Theme::series(0), 1, .8);
    }
    painter.fillRect(QRectF(plot.x(), plot.bottom(), plot.width(), 1), c.line);
    const std::pair<QString, double> marks[] = {{tr("P50"), p.p50}, {tr("P95"), p.p95}, {tr("P99"), p.p99}};
    double free = plot.x();
    for (const auto &[name, value] : marks) {
        const double x = std::round(plot.x() + plot.width() * std::min(1.0, value / top));
        QColor line = c.muted;
        line.setAlphaF(.6f);
        painter.fillRect(QRectF(x, plot.y() - 16, 1, plot.height() + 16), line);
        if (x + 4 >= free) // names that would lie on each other are left to the summary
            paint::text(painter, {x + 4, plot.y() - 18, 34, 15}, name, theme().ui(11), c.muted);
        free = x + 36;
    }
    paint::text(painter, {plot.x(), rect.bottom() - 14, 80, 16}, tr("0 ms"), theme().ui(11), c.quiet);
    paint::text(painter, {plot.right() - 80, rect.bottom() - 14, 80, 16}, format::milliseconds(top), theme().ui(11),
                c.quiet, Qt::AlignRight);
}

} // namespace ui
