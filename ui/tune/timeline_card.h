// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/widgets/card.h"

namespace ui {

class EngineClient;
class StatsHistory;

/// The last requests over time: queued, prefill, decode and recomputed parts, with the changes of knobs as markers.
class TimelineCard : public Card {
    Q_OBJECT
public:
    TimelineCard(Theme &theme, EngineClient &client, StatsHistory &history, QWidget *parent = nullptr);

protected:
    void paintContent(QPainter &painter, const QRectF &rect) override;
    void timerEvent(QTimerEvent *event) override;
    void showEvent(QShowEvent *event) override;
    void hideEvent(QHideEvent *event) override;

private:
    [[nodiscard]] double windowStart(double rows) const;

    EngineClient &m_client;
    StatsHistory &m_history;
    QBasicTimer m_scroll;
};

} // namespace ui
