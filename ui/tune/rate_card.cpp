// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/tune/rate_card.h"

#include "ui/format.h"
#include "ui/stats_history.h"
#include "ui/widgets/paint.h"
#include "ui/widgets/plot.h"

#include <algorithm>
#include <cmath>

namespace ui {

namespace {

constexpr double shownSeconds = 300;
constexpr int feedMs = 200;

} // namespace

RateCard::RateCard(Theme &theme, StatsHistory &history, QWidget *parent)
    : Card(theme, tr("What a change did"), parent)
    , m_history(history)
    , m_plot(new Plot(theme, tr("Rates plot"), tr("seconds since the start"), tr("tokens per second"), this))
{
    setFocusPolicy(Qt::NoFocus);
    setSummary(tr("blue decode · orange prefill · a line for every changed knob"));
    m_plot->addLine(tr("decode"), 0, tr("tok/s"), true);
    m_plot->addLine(tr("prefill"), 1, tr("tok/s"));
    connect(&history, &StatsHistory::changed, this, [this] {
        if (isVisible() && (!m_sinceFeed.isValid() || m_sinceFeed.elapsed() >= feedMs))
            feed();
    });
}

void RateCard::feed()
{
    m_sinceFeed.start();
    const auto decode = m_history.series(StatsHistory::Figure::DecodeRate, shownSeconds);
    const auto prefill = m_history.series(StatsHistory::Figure::PrefillRate, shownSeconds);
    const double end = std::floor(m_history.now() / StatsHistory::binSeconds) * StatsHistory::binSeconds;
    std::vector<double> x(decode.size());
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = end - double(x.size() - i) * StatsHistory::binSeconds;
    m_plot->setData(0, x, std::vector<double>(decode.begin(), decode.end()));
    m_plot->setData(1, x, std::vector<double>(prefill.begin(), prefill.end()));
    m_plot->setFollowRange(std::max(0.0, end - shownSeconds), std::max(end, 10.0));
    const auto quiet = [](const auto &values) {
        return std::all_of(values.begin(), values.end(), [](float value) { return value == 0; });
    };
    m_plot->setVisible(!quiet(decode) || !quiet(prefill) || !m_history.markers().empty());
    QList<Plot::Marker> markers;
    for (const StatsHistory::Marker &marker : m_history.markers())
        markers.append({marker.time, marker.text, marker.notice});
    m_plot->setMarkers(markers);
}

void RateCard::paintContent(QPainter &painter, const QRectF &rect)
{
    if (m_plot->isHidden())
        paint::empty(painter, theme(), rect, tr("Tokens per second appear here, with a line for every changed knob"),
                     tr("Ask something in a chat, then move a knob"));
}

void RateCard::resizeEvent(QResizeEvent *event)
{
    Card::resizeEvent(event);
    m_plot->setGeometry(contentRect().toRect());
}

void RateCard::showEvent(QShowEvent *event)
{
    Card::showEvent(event);
    feed();
}

} // namespace ui
