// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/widgets/device_row.h"

#include "ui/format.h"
#include "ui/widgets/paint.h"

#include <QPainter>

#include <algorithm>
#include <cmath>

namespace ui {

namespace {

constexpr std::size_t historyLength = 300; // a minute at five readings a second
constexpr double labelWidth = 62, figureWidth = 172;

} // namespace

DeviceRow::DeviceRow(Theme &theme, QWidget *parent)
    : QWidget(parent)
    , m_theme(theme)
{
    connect(&m_theme, &Theme::changed, this, qOverload<>(&QWidget::update));
}

void DeviceRow::setStats(const engine::DeviceStats &stats)
{
    m_stats = stats;
    m_busy.push_back(stats.utilization ? float(*stats.utilization * 100) : NAN);
    if (m_busy.size() > historyLength)
        m_busy.erase(m_busy.begin());
    setAccessibleName(QString::fromStdString(stats.id + " " + stats.name));
    setAccessibleDescription(tr("%1, %2, busy %3")
                                 .arg(format::optional(stats.temperatureC, QStringLiteral("°C")),
                                      format::optional(stats.powerW, QStringLiteral("W")),
                                      stats.utilization ? format::percent(*stats.utilization) : QStringLiteral("n/a")));
    QString tip = QString::fromStdString(stats.problem);
    if (!stats.isa.empty()) {
        QStringList levels;
        for (const std::string &level : stats.isa)
            levels << QString::fromStdString(level);
        tip += (tip.isEmpty() ? QString() : QStringLiteral("\n")) + tr("instruction sets: %1").arg(levels.join(u", "));
    }
    setToolTip(tip);
    update();
}

void DeviceRow::setOwnMemory(std::size_t weights, std::size_t kv, std::size_t workspace)
{
    m_own[0] = weights;
    m_own[1] = kv;
    m_own[2] = workspace;
}

QString DeviceRow::footnote() const
{
    if (m_stats.temperatureC && *m_stats.temperatureC >= hotC)
        return tr("at or above 85 °C: check the cooling");
    // Only the first reason has room; the tool tip and the devices page have all.
    const QString reasons = QString::fromStdString(m_stats.problem);
    if (!m_stats.temperatureC && !reasons.isEmpty())
        return reasons.section(QStringLiteral("; "), 0, 0);
    return m_stats.memoryClockMhz ? tr("memory %1").arg(format::optional(m_stats.memoryClockMhz, QStringLiteral("MHz")))
                                  : QString();
}

void DeviceRow::paintMemory(QPainter &painter, const QRectF &rect) const
{
    const Tokens &c = m_theme.tokens();
    paint::bar(painter, rect, c.raised);
    if (!m_stats.memoryTotalBytes || !m_stats.memoryFreeBytes || *m_stats.memoryTotalBytes == 0)
        return;
    const auto total = double(*m_stats.memoryTotalBytes);
    const double used = total - double(std::min(*m_stats.memoryFreeBytes, *m_stats.memoryTotalBytes));
    double x = rect.x(), drawn = 0;
    const QColor colors[] = {Theme::series(5), Theme::series(0), Theme::series(1)};
    for (int i = 0; i < 3; ++i) {
        const double part = std::min(double(m_own[i]), used - drawn);
        const double width = rect.width() * part / total;
        if (width >= 1)
            paint::bar(painter, QRectF(x, rect.y(), width - .5, rect.height()), colors[i], 2);
        x += width;
        drawn += part;
    }
    if (used > drawn)
        paint::bar(painter, QRectF(x, rect.y(), rect.width() * (used - drawn) / total, rect.height()), c.faint, 2, .6);
}

void DeviceRow::paintEvent(QPaintEvent *)
{
    const Tokens &c = m_theme.tokens();
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    const double w = width();
    const bool hot = m_stats.temperatureC && *m_stats.temperatureC >= hotC;
    const QString power = m_stats.powerLimitW && m_stats.powerW
        ? tr("%1 / %2").arg(QString::number(*m_stats.powerW, 'f', 0),
                            format::optional(m_stats.powerLimitW, QStringLiteral("W")))
        : tr("power %1").arg(format::optional(m_stats.powerW, QStringLiteral("W")));
    const QString name =
        QString::fromStdString(m_stats.id) + QStringLiteral("  ") + QString::fromStdString(m_stats.name);
    paint::text(painter, {0, 0, w - 130, 18}, name, m_theme.ui(12.5, QFont::Medium), c.text);
    paint::text(painter, {w - 130, 0, 130, 18}, power, m_theme.mono(12), c.muted, Qt::AlignRight);

    const double barWidth = std::max(40.0, w - labelWidth - figureWidth);
    paint::text(painter, {0, 21, labelWidth, 18}, tr("memory"), m_theme.ui(11.5), c.muted);
    paintMemory(painter, {labelWidth, 25, barWidth, 11});
    paint::text(painter, {0, 44, labelWidth, 18}, tr("busy"), m_theme.ui(11.5), c.muted);
    if (m_stats.utilization)
        paint::line(painter, {labelWidth, 44, barWidth, 20}, {m_busy, c.accent, 1.4, false}, 0, 100);
    else
        paint::text(painter, {labelWidth, 44, barWidth, 18}, tr("n/a"), m_theme.ui(11.5), c.muted);

    // An absent figure is small and says what is absent.
    const QRectF figure(w - figureWidth + 12, 17, figureWidth - 12, 30);
    if (m_stats.temperatureC)
        paint::text(painter, figure, format::optional(m_stats.temperatureC, QStringLiteral("°C")),
                    m_theme.mono(22, QFont::DemiBold), hot ? c.badText : c.text, Qt::AlignRight);
    else
        paint::text(painter, figure, tr("temperature n/a"), m_theme.mono(12), c.muted, Qt::AlignRight);
    const QString clock =
        m_stats.clockMhz ? format::optional(m_stats.clockMhz, QStringLiteral("MHz")) : tr("clock n/a");
    const QString share = m_stats.utilization ? format::percent(*m_stats.utilization) : QStringLiteral("n/a");
    paint::text(painter, {w - figureWidth + 12, 45, figureWidth - 12, 18}, tr("busy %1 · %2").arg(share, clock),
                m_theme.ui(11.5), c.muted, Qt::AlignRight);
    QString memory = QStringLiteral("n/a");
    if (m_stats.memoryTotalBytes && m_stats.memoryFreeBytes)
        memory = tr("%1 of %2")
                     .arg(format::bytes(*m_stats.memoryTotalBytes
                                        - std::min(*m_stats.memoryFreeBytes, *m_stats.memoryTotalBytes)),
                          format::bytes(*m_stats.memoryTotalBytes));
    paint::text(painter, {0, 64, 140, 18}, memory, m_theme.ui(11), c.muted);
    paint::text(painter, {140, 64, w - 140, 18}, footnote(), m_theme.ui(11), hot ? c.badText : c.muted, Qt::AlignRight);
}

} // namespace ui
