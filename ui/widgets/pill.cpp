// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/widgets/pill.h"

#include "ui/widgets/paint.h"

#include <QPainter>

namespace ui {

Pill::Pill(Theme &theme, const QString &text, QWidget *parent)
    : QAbstractButton(parent)
    , m_theme(theme)
{
    setText(text);
    setFocusPolicy(Qt::TabFocus);
    setAttribute(Qt::WA_Hover);
    setCursor(Qt::PointingHandCursor);
    connect(&m_theme, &Theme::changed, this, qOverload<>(&QWidget::update));
}

void Pill::setLabelOnly(bool on)
{
    m_labelOnly = on;
    setFocusPolicy(on ? Qt::NoFocus : Qt::TabFocus);
    setAttribute(Qt::WA_TransparentForMouseEvents, on);
    update();
}

// 28 px high to click, 20 px high to see.
QSize Pill::sizeHint() const
{
    const double width = paint::advance(m_theme.ui(11.5, QFont::Medium), text()) + 24;
    return QSize(qRound(width), m_labelOnly ? 20 : 28);
}

void Pill::paintEvent(QPaintEvent *)
{
    const Tokens &c = m_theme.tokens();
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    const QRectF body(0.5, (height() - 20) / 2.0, width() - 1, 20);
    paint::bar(painter, body, isChecked() ? c.accent : c.raised, 10);
    if (hasFocus() || (underMouse() && !m_labelOnly)) {
        painter.setPen(QPen(hasFocus() && isChecked() ? c.text : hasFocus() ? c.accent : c.faint, 1));
        painter.setBrush(Qt::NoBrush);
        painter.drawRoundedRect(body.adjusted(0, .5, 0, -.5), 10, 10);
    }
    const QColor ink = isChecked() ? c.accentText : isEnabled() ? c.muted : c.quiet;
    paint::text(painter, body, text(), m_theme.ui(11.5, QFont::Medium), ink, Qt::AlignHCenter);
}

} // namespace ui
