// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/inspect/live_card.h"
#include "ui/latency_book.h"

namespace ui {

class EngineClient;
class StatsHistory;

/// Percentiles of the time to the first token and of the gaps between tokens, of all requests and of every chat and
/// client, since the model was loaded.
class LatencyCard : public LiveCard {
    Q_OBJECT
public:
    LatencyCard(Theme &theme, EngineClient &client, StatsHistory &history, QWidget *parent = nullptr);
    [[nodiscard]] QSize sizeHint() const override { return {496, 170}; }
    bool exportTo(const QString &path, QString *why) override;
    [[nodiscard]] QString exportFilters() const override;

protected:
    void paintContent(QPainter &painter, const QRectF &rect) override;
    void setWatching(bool on) override;

private:
    void refresh();
    void paintRow(QPainter &painter, const QRectF &rect, const LatencyBook::Row &row) const;
    [[nodiscard]] static QString nameOf(const LatencyBook::Row &row);

    EngineClient &m_client;
    StatsHistory &m_history;
    std::vector<LatencyBook::Row> m_rows;
};

} // namespace ui
