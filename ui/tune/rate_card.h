// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/widgets/card.h"

namespace ui {

class Plot;
class StatsHistory;

/// Prefill and decode rates since the start, with a marker for every changed knob: what a change did.
class RateCard : public Card {
    Q_OBJECT
public:
    RateCard(Theme &theme, StatsHistory &history, QWidget *parent = nullptr);

protected:
    void paintContent(QPainter &painter, const QRectF &rect) override;
    void resizeEvent(QResizeEvent *event) override;
    void showEvent(QShowEvent *event) override;

private:
    void feed();

    StatsHistory &m_history;
    Plot *m_plot = nullptr;
    QElapsedTimer m_sinceFeed;
};

} // namespace ui
