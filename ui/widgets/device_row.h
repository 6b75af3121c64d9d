// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/stats.h"
#include "ui/theme.h"

#include <QWidget>

#include <deque>
#include <vector>

namespace ui {

/// One device: name, memory bar, utilisation over the last minute, temperature, power, clocks.
///
/// A missing sensor shows "n/a" and the reason beside it; at 85 °C and above the temperature turns red and a line
/// says so. Repainted only by setStats().
class DeviceRow : public QWidget {
    Q_OBJECT
public:
    explicit DeviceRow(Theme &theme, QWidget *parent = nullptr);

    void setStats(const engine::DeviceStats &stats);
    /// Bytes of the memory that are ours, by part, drawn in the memory bar; the rest in use is drawn in grey.
    void setOwnMemory(std::size_t weights, std::size_t kv, std::size_t workspace);
    [[nodiscard]] QSize sizeHint() const override { return {420, 84}; }
    [[nodiscard]] QSize minimumSizeHint() const override { return {300, 84}; }

    /// The temperature from which a device counts as too hot, in °C.
    static constexpr double hotC = 85;

protected:
    void paintEvent(QPaintEvent *event) override;

private:
    void paintMemory(QPainter &painter, const QRectF &rect) const;
    [[nodiscard]] QString footnote() const;

    Theme &m_theme;
    engine::DeviceStats m_stats;
    std::size_t m_own[3] = {};
    std::vector<float> m_busy; ///< percent, oldest first
};

} // namespace ui
