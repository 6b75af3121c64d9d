// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/request_spans.h"
#include "ui/widgets/card.h"

namespace ui {

class EngineClient;
class StatsHistory;

/// What the clients of the server ask for: a line for each of their last requests, the newest first.
class RequestsCard : public Card {
    Q_OBJECT
public:
    RequestsCard(Theme &theme, EngineClient &client, StatsHistory &history, QWidget *parent = nullptr);
    [[nodiscard]] QSize sizeHint() const override { return {420, 260}; }
    [[nodiscard]] QSize minimumSizeHint() const override { return {240, 160}; }

protected:
    void paintContent(QPainter &painter, const QRectF &rect) override;

private:
    void refresh();

    EngineClient &m_client;
    StatsHistory &m_history;
};

} // namespace ui
