// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/inspect/devices_card.h"

#include "ui/engine_client.h"
#include "ui/format.h"
#include "ui/widgets/device_row.h"
#include "ui/widgets/paint.h"

#include <QPainter>

#include <algorithm>

namespace ui {

namespace {

constexpr int rowPitch = 92;

} // namespace

DevicesCard::DevicesCard(Theme &theme, EngineClient &client, QWidget *parent)
    : LiveCard(theme, QStringLiteral("devices"), tr("Devices"), parent)
    , m_client(client)
{
    connect(&client, &EngineClient::devicesRead, this, &DevicesCard::take);
}

QSize DevicesCard::sizeHint() const
{
    return {496, headerHeight + int(std::max<qsizetype>(1, m_rows.size())) * rowPitch + 6};
}

void DevicesCard::setWatching(bool on)
{
    m_client.watchDevices(on);
}

void DevicesCard::take(const std::shared_ptr<const std::vector<engine::DeviceStats>> &devices)
{
    if (!devices)
        return;
    const auto count = qsizetype(devices->size());
    const bool resized = count != m_rows.size();
    while (m_rows.size() < count) {
        m_rows.append(new DeviceRow(theme(), this));
        m_rows.constLast()->show();
    }
    while (m_rows.size() > count)
        delete m_rows.takeLast();
    QString driver;
    bool hot = false;
    const engine::EngineTotals totals = m_client.totals();
    // A pool is committed as it is used: only the blocks in use are memory taken.
    for (qsizetype i = 0; i < count; ++i) {
        const engine::DeviceStats &stats = (*devices)[std::size_t(i)];
        if (stats.kind == "cpu") // all of the engine's memory is here while it computes on the CPU
            m_rows[i]->setOwnMemory(totals.weightBytes, totals.memory.kvUsed, totals.workspaceBytes);
        m_rows[i]->setStats(stats);
        hot = hot || (stats.temperatureC && *stats.temperatureC >= DeviceRow::hotC);
        if (!stats.driver.empty())
            driver = tr("driver %1").arg(QString::fromStdString(stats.driver));
    }
    setSummary(hot                    ? tr("a device is at or above 85 °C")
                   : driver.isEmpty() ? format::counted(count, tr("device"), tr("devices"))
                                      : driver);
    if (resized) {
        updateGeometry();
        layoutContent();
    }
    scheduleUpdate();
}

void DevicesCard::layoutContent()
{
    const QRect content = contentRect().toRect();
    for (qsizetype i = 0; i < m_rows.size(); ++i)
        m_rows[i]->setGeometry(content.x(), content.y() + int(i) * rowPitch, content.width(), rowPitch - 8);
}

void DevicesCard::paintContent(QPainter &painter, const QRectF &rect)
{
    if (m_rows.isEmpty())
        paint::empty(painter, theme(), rect, tr("Sensors are being read"), {});
}

} // namespace ui
