// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/stats.h"
#include "ui/widgets/card.h"

#include <vector>

namespace ui {

/// One device in full: each sensor with its figure, its last minutes, and why it is missing where it is.
class DeviceCard : public Card {
    Q_OBJECT
public:
    explicit DeviceCard(Theme &theme, QWidget *parent = nullptr);
    void setStats(const engine::DeviceStats &stats);
    [[nodiscard]] QSize sizeHint() const override { return {700, m_stats.kind == "cuda" ? 272 : 232}; }
    /// What GPUs tell besides their sensors, "n/a" where they do not; two lines, none for the CPU.
    [[nodiscard]] QStringList details() const;

    static constexpr double hotC = 85;

protected:
    void paintContent(QPainter &painter, const QRectF &rect) override;

private:
    struct Sensor {
        QString name;
        QString value; ///< "71", empty when absent
        QString unit;
        std::vector<float> history; ///< NaN where absent
        double top = 100;           ///< upper end of its plot
    };
    void record(std::size_t sensor, const std::optional<double> &value, const QString &text, double top);
    void paintSensor(QPainter &painter, const QRectF &rect, const Sensor &sensor, bool hot) const;

    engine::DeviceStats m_stats;
    std::vector<Sensor> m_sensors;
};

} // namespace ui
