// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/widgets/card.h"

#include <vector>

namespace ui {

class StatsHistory;

/// How long answers wait between two tokens: a histogram of the last minute with P50, P95 and P99.
class GapCard : public Card {
    Q_OBJECT
public:
    GapCard(Theme &theme, StatsHistory &history, QWidget *parent = nullptr);

    /// `bins` counts of equal width from 0 to `top`; larger values count in the last one.
    [[nodiscard]] static std::vector<int> histogram(const std::vector<float> &values, double top, int bins);

protected:
    void paintContent(QPainter &painter, const QRectF &rect) override;

private:
    StatsHistory &m_history;
};

} // namespace ui
