// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/inspect/live_card.h"
#include "ui/widgets/batch_rows.h"

namespace ui {

class EngineClient;
class Plot;
class StatsHistory;

/// The rows of the running step against both limits, and running and waiting requests over the last minute.
class BatchCard : public LiveCard {
    Q_OBJECT
public:
    BatchCard(Theme &theme, EngineClient &client, StatsHistory &history, QWidget *parent = nullptr);
    [[nodiscard]] QSize sizeHint() const override { return {496, 246}; }
    bool exportTo(const QString &path, QString *why) override;
    [[nodiscard]] QString exportFilters() const override;

protected:
    void paintContent(QPainter &painter, const QRectF &rect) override;
    void setWatching(bool on) override;
    void expandedChanged(bool expanded) override;
    void layoutContent() override;

private:
    void refresh();
    void feedPlot();
    void paintLimit(QPainter &painter, const QRectF &rect, const QString &name, int value, int limit) const;

    EngineClient &m_client;
    StatsHistory &m_history;
    Plot *m_plot = nullptr;
    QList<BatchRow> m_rows;
};

} // namespace ui
