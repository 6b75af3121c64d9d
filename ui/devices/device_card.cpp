// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/devices/device_card.h"

#include "ui/format.h"
#include "ui/widgets/paint.h"

#include <QPainter>

#include <algorithm>
#include <cmath>
#include <utility>

namespace ui {

namespace {

constexpr std::size_t historyLength = 1500; // five minutes at five readings a second
enum Index : std::size_t { Temperature, Power, Busy, Memory, Clock };

double gib(std::size_t bytes)
{
    return double(bytes) / (1024.0 * 1024 * 1024);
}

} // namespace

DeviceCard::DeviceCard(Theme &theme, QWidget *parent)
    : Card(theme, {}, parent)
{
    setFocusPolicy(Qt::NoFocus);
    const std::pair<QString, QString> names[] = {{tr("temperature"), QStringLiteral("°C")},
                                                 {tr("power"), QStringLiteral("W")},
                                                 {tr("busy"), QStringLiteral("%")},
                                                 {tr("memory in use"), QStringLiteral("GiB")},
                                                 {tr("clock"), QStringLiteral("MHz")}};
    for (const auto &[name, unit] : names)
        m_sensors.push_back({name, {}, unit, {}, 100});
    setFixedHeight(sizeHint().height());
}

void DeviceCard::record(std::size_t sensor, const std::optional<double> &value, const QString &text, double top)
{
    Sensor &s = m_sensors[sensor];
    s.value = value ? text : QString();
    s.top = std::max(1.0, top);
    s.history.push_back(value ? float(*value) : NAN);
    if (s.history.size() > historyLength)
        s.history.erase(s.history.begin());
}

namespace {

/// "memory clock 2619 MHz", or "memory clock n/a".
QString told(const QString &name, const std::optional<double> &value, const QString &unit)
{
    return value ? QStringLiteral("%1 %2 %3").arg(name, format::number(*value), unit)
                 : QStringLiteral("%1 %2").arg(name, QObject::tr("n/a"));
}

std::optional<double> mebibytes(const std::optional<double> &bytes)
{
    return bytes ? std::optional(*bytes / (1024.0 * 1024)) : std::nullopt;
}

} // namespace

QStringList DeviceCard::details() const
{
    if (m_stats.kind != "cuda")
        return {};
    const engine::DeviceStats &s = m_stats;
    const QString separator = QStringLiteral(" · ");
    const QStringList link{s.pcieGeneration && s.pcieLanes ? tr("PCIe %1 x%2").arg(*s.pcieGeneration).arg(*s.pcieLanes)
                                                           : tr("PCIe n/a"),
                           told(tr("to the host"), mebibytes(s.pcieSendBytesPerSecond), QStringLiteral("MiB/s")),
                           told(tr("from it"), mebibytes(s.pcieReceiveBytesPerSecond), QStringLiteral("MiB/s"))};
    QString clocks = tr("clocks not lowered");
    if (!s.throttleReasons)
        clocks = tr("reasons for lower clocks n/a");
    else if (!s.throttleReasons->empty()) {
        QStringList reasons;
        for (const std::string &reason : *s.throttleReasons)
            reasons << QString::fromStdString(reason);
        clocks = tr("clocks lowered: %1").arg(reasons.join(QStringLiteral(", ")));
    }
    const QStringList sensors{told(tr("memory temperature"), s.memoryTemperatureC, QStringLiteral("°C")),
                              told(tr("memory clock"), s.memoryClockMhz, QStringLiteral("MHz")),
                              told(tr("power limit"), s.powerLimitW, QStringLiteral("W")),
                              link.join(QStringLiteral(", "))};
    const QStringList faults{clocks, s.eccErrors ? tr("ECC errors %1").arg(*s.eccErrors) : tr("ECC errors n/a"),
                             s.xid ? tr("last fault Xid %1").arg(*s.xid) : tr("no fault (Xid) told")};
    return {sensors.join(separator), faults.join(separator)};
}

void DeviceCard::setStats(const engine::DeviceStats &stats)
{
    if (stats.kind != std::exchange(m_stats.kind, stats.kind))
        setFixedHeight(sizeHint().height());
    m_stats = stats;
    const auto whole = [](const std::optional<double> &value) {
        return value ? format::count(std::llround(*value)) : QString();
    };
    record(Temperature, stats.temperatureC, whole(stats.temperatureC), 100);
    record(Power, stats.powerW, whole(stats.powerW),
           stats.powerLimitW.value_or(std::max(100.0, stats.powerW.value_or(0) * 1.5)));
    const auto busy = stats.utilization ? std::optional(*stats.utilization * 100) : std::nullopt;
    record(Busy, busy, whole(busy), 100);
    std::optional<double> used;
    if (stats.memoryTotalBytes && stats.memoryFreeBytes)
        used = gib(*stats.memoryTotalBytes) - gib(*stats.memoryFreeBytes);
    record(Memory, used, used ? format::number(*used) : QString(),
           stats.memoryTotalBytes ? gib(*stats.memoryTotalBytes) : 1);
    record(Clock, stats.clockMhz, whole(stats.clockMhz), std::max(1000.0, stats.clockMhz.value_or(0) * 1.3));
    setTitle(QStringLiteral("%1  %2").arg(QString::fromStdString(stats.id), QString::fromStdString(stats.name)));
    QStringList parts;
    for (const std::string &level : stats.isa)
        parts << QString::fromStdString(level);
    if (!stats.driver.empty())
        parts << tr("driver %1").arg(QString::fromStdString(stats.driver));
    if (stats.memoryTotalBytes)
        parts << tr("%1 memory").arg(format::bytes(*stats.memoryTotalBytes));
    setSummary(parts.join(QStringLiteral(" · ")));
    scheduleUpdate();
}

void DeviceCard::paintSensor(QPainter &painter, const QRectF &rect, const Sensor &sensor, bool hot) const
{
    const Tokens &c = theme().tokens();
    const bool absent = sensor.value.isEmpty();
    paint::figure(painter, theme(), rect.topLeft() + QPointF(0, 14), sensor.name, absent ? tr("n/a") : sensor.value,
                  absent ? QString() : sensor.unit,
                  hot          ? c.badText
                      : absent ? c.muted
                               : c.text);
    const QRectF plot(rect.x(), rect.y() + 56, rect.width(), rect.height() - 56);
    paint::grid(painter, theme(), plot, 3);
    if (absent)
        return;
    if (&sensor == &m_sensors[Temperature]) {
        const double y = std::round(plot.bottom() - plot.height() * hotC / sensor.top);
        painter.fillRect(QRectF(plot.x(), y, plot.width(), 1), c.warn);
        paint::text(painter, {plot.x(), y - 15, plot.width(), 14}, tr("85 °C"), theme().ui(10.5), c.warnText,
                    Qt::AlignRight);
    }
    paint::line(painter, plot, {sensor.history, hot ? c.bad : c.accent, 1.4, true}, 0, sensor.top);
}

void DeviceCard::paintContent(QPainter &painter, const QRectF &rect)
{
    const Tokens &c = theme().tokens();
    const bool hot = m_stats.temperatureC && *m_stats.temperatureC >= hotC;
    const double gap = 24, width = (rect.width() - gap * double(m_sensors.size() - 1)) / double(m_sensors.size());
    constexpr double lineHeight = 20;
    const QStringList lines = details();
    const double below = 30 + lineHeight * double(lines.size());
    for (std::size_t i = 0; i < m_sensors.size(); ++i)
        paintSensor(painter, {rect.x() + double(i) * (width + gap), rect.y(), width, rect.height() - below},
                    m_sensors[i], hot && i == Temperature);
    for (qsizetype i = 0; i < lines.size(); ++i)
        paint::text(painter, {rect.x(), rect.bottom() - below + 14 + lineHeight * double(i), rect.width(), 18},
                    lines[i], theme().ui(11.5), c.text);
    QString foot = QString::fromStdString(m_stats.problem);
    if (hot)
        foot = tr("at or above 85 °C: the device slows itself down; check the cooling");
    paint::text(painter, {rect.x(), rect.bottom() - 16, rect.width(), 18}, foot.isEmpty() ? tr("last 5 min") : foot,
                theme().ui(11.5), hot ? c.badText : c.muted);
}

} // namespace ui
