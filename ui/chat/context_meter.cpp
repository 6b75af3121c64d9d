// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/context_meter.h"

#include "ui/format.h"
#include "ui/theme.h"
#include "ui/widgets/paint.h"

#include <QPainter>

#include <algorithm>

namespace ui {

ContextMeter::ContextMeter(const Theme &theme, QWidget *parent)
    : QWidget(parent)
    , m_theme(theme)
{
    setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Fixed);
    connect(&theme, &Theme::changed, this, qOverload<>(&QWidget::update));
}

void ContextMeter::setTokens(int used, int total)
{
    if (m_used == used && m_total == total)
        return;
    m_used = used;
    m_total = total;
    QString text;
    if (total > 0)
        text = used == unknown
            ? tr("Context of %1 tokens; how many are used shows with the next answer").arg(format::count(total))
            : tr("Context: %1 of %2 tokens used").arg(format::count(used), format::count(total));
    setToolTip(text);
    setAccessibleName(text);
    update();
}

void ContextMeter::paintEvent(QPaintEvent *)
{
    if (m_total <= 0)
        return;
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    const Tokens &tokens = m_theme.tokens();
    const double share = std::clamp(double(m_used) / m_total, 0.0, 1.0);
    const bool full = share >= 0.85;
    paint::text(painter, QRectF(0, 0, width(), 20),
                tr("context %1 / %2")
                    .arg(m_used == unknown ? QStringLiteral("–") : format::count(m_used), format::count(m_total)),
                m_theme.ui(12), full ? tokens.warnText : tokens.muted, Qt::AlignRight);
    paint::bar(painter, QRectF(0, 24, width(), 4), tokens.line, 2);
    if (m_used > 0)
        paint::bar(painter, QRectF(0, 24, std::max(4.0, width() * share), 4), full ? tokens.warn : tokens.accent, 2);
}

} // namespace ui
