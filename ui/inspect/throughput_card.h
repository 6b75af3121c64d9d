// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/inspect/live_card.h"

namespace ui {

class EngineClient;
class Plot;
class StatsHistory;

/// Prefill and decode tokens per second over the last minute, time to first token and gap between tokens.
class ThroughputCard : public LiveCard {
    Q_OBJECT
public:
    ThroughputCard(Theme &theme, EngineClient &client, StatsHistory &history, QWidget *parent = nullptr);
    [[nodiscard]] QSize sizeHint() const override { return {496, 196}; }
    bool exportTo(const QString &path, QString *why) override;
    [[nodiscard]] QString exportFilters() const override;

protected:
    void paintContent(QPainter &painter, const QRectF &rect) override;
    void setWatching(bool on) override;
    void expandedChanged(bool expanded) override;
    void layoutContent() override;
    void timerEvent(QTimerEvent *event) override;

private:
    void paintFigures(QPainter &painter, const QRectF &rect) const;
    void paintRates(QPainter &painter, const QRectF &plot);
    void paintPercentiles(QPainter &painter, const QRectF &rect) const;
    void feedPlot();

    EngineClient &m_client;
    StatsHistory &m_history;
    Plot *m_plot = nullptr;
    QBasicTimer m_scroll;
    double m_top = 0; ///< eased upper end of the axis
};

} // namespace ui
