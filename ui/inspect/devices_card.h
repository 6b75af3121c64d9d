// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/stats.h"
#include "ui/inspect/live_card.h"

#include <memory>

namespace ui {

class DeviceRow;
class EngineClient;

/// Temperature, power, utilisation, memory and clocks of every device; the host's CPU and memory always.
class DevicesCard : public LiveCard {
    Q_OBJECT
public:
    DevicesCard(Theme &theme, EngineClient &client, QWidget *parent = nullptr);
    [[nodiscard]] QSize sizeHint() const override;

protected:
    void paintContent(QPainter &painter, const QRectF &rect) override;
    void setWatching(bool on) override;
    void layoutContent() override;

private:
    void take(const std::shared_ptr<const std::vector<engine::DeviceStats>> &devices);

    EngineClient &m_client;
    QList<DeviceRow *> m_rows;
};

} // namespace ui
