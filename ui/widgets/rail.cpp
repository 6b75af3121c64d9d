// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/widgets/rail.h"

#include "ui/widgets/paint.h"

#include <QBoxLayout>
#include <QButtonGroup>
#include <QPainter>

namespace ui {

namespace {

// Signs on a field of 20 x 20 around the origin, stroked with 1.6 px.
void drawSign(QPainter &painter, RailIcon icon, const QColor &inside)
{
    using P = QPointF;
    switch (icon) {
    case RailIcon::Chat:
        painter.drawPolygon(QPolygonF{{P(-10, -8), P(10, -8), P(10, 5), P(-2, 5), P(-7, 10), P(-7, 5), P(-10, 5)}});
        break;
    case RailIcon::Models:
        painter.drawPolygon(QPolygonF{{P(-10, -5), P(0, -10), P(10, -5), P(0, 0)}});
        painter.drawPolyline(QPolygonF{{P(-10, 1), P(0, 6), P(10, 1)}});
        break;
    case RailIcon::Tune:
        painter.setBrush(inside);
        for (const auto &[y, knob] : {std::pair{-6, -3}, std::pair{0, 4}, std::pair{6, -1}}) {
            painter.drawLine(P(-10, y), P(10, y));
            painter.drawEllipse(P(knob, y), 2.6, 2.6);
        }
        break;
    case RailIcon::Devices:
        painter.drawRect(QRectF(-9, -9, 18, 18));
        painter.drawRect(QRectF(-4, -4, 8, 8));
        break;
    case RailIcon::Server:
        for (const int y : {-9, 2}) {
            painter.drawRoundedRect(QRectF(-10, y, 20, 7), 2, 2);
            painter.drawLine(P(-6, y + 3.5), P(-3, y + 3.5));
        }
        break;
    case RailIcon::Menu:
        for (const int y : {-5, 0, 5})
            painter.drawLine(P(-8, y), P(8, y));
        break;
    }
}

} // namespace

RailButton::RailButton(Theme &theme, RailIcon icon, const QString &name, QWidget *parent)
    : QAbstractButton(parent)
    , m_theme(theme)
    , m_icon(icon)
{
    setText(name);
    setAccessibleName(name);
    setFixedSize(sizeHint());
    setFocusPolicy(Qt::TabFocus);
    setAttribute(Qt::WA_Hover);
    connect(&m_theme, &Theme::changed, this, qOverload<>(&QWidget::update));
}

void RailButton::paintEvent(QPaintEvent *)
{
    const Tokens &c = m_theme.tokens();
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    if (isChecked() || underMouse())
        paint::bar(painter, rect(), c.raised, 10, isChecked() ? 1 : .6);
    if (hasFocus()) {
        painter.setPen(QPen(c.accent, 1.5));
        painter.setBrush(Qt::NoBrush);
        painter.drawRoundedRect(QRectF(rect()).adjusted(1, 1, -1, -1), 9, 9);
    }
    const QColor ink = isChecked() ? c.accent : c.muted;
    painter.save();
    painter.translate(24, 21);
    painter.setPen(QPen(ink, 1.6));
    painter.setBrush(Qt::NoBrush);
    drawSign(painter, m_icon, isChecked() ? c.raised : c.panel);
    painter.restore();
    paint::text(painter, QRectF(-8, 38, 64, 14), text(), m_theme.ui(11, QFont::Medium), ink, Qt::AlignHCenter);
}

Rail::Rail(Theme &theme, QWidget *parent)
    : QWidget(parent)
    , m_theme(theme)
    , m_group(new QButtonGroup(this))
{
    setFixedWidth(65);
    setAccessibleName(tr("Places"));
    m_column = new QVBoxLayout(this);
    m_column->setContentsMargins(8, 20, 9, 12);
    m_column->setSpacing(12);
    m_column->addStretch();
    m_menu = new RailButton(theme, RailIcon::Menu, tr("Menu"), this);
    m_menu->setToolTip(tr("Menu (F10)"));
    m_column->addWidget(m_menu);
    connect(m_menu, &QAbstractButton::clicked, this, &Rail::menuRequested);
    connect(m_group, &QButtonGroup::idClicked, this, &Rail::chosen);
    connect(&m_theme, &Theme::changed, this, qOverload<>(&QWidget::update));
}

int Rail::addPlace(RailIcon icon, const QString &name)
{
    const int index = int(m_buttons.size());
    auto *button = new RailButton(m_theme, icon, name, this);
    button->setCheckable(true);
    button->setToolTip(tr("%1 (Ctrl+%2)").arg(name).arg(index + 1));
    m_group->addButton(button, index);
    m_column->insertWidget(index, button);
    m_buttons.append(button);
    if (index > 0)
        QWidget::setTabOrder(m_buttons[index - 1], button);
    QWidget::setTabOrder(button, m_menu);
    return index;
}

void Rail::setCurrent(int index)
{
    m_buttons[index]->setChecked(true);
}

int Rail::current() const
{
    return m_group->checkedId();
}

void Rail::paintEvent(QPaintEvent *)
{
    QPainter painter(this);
    painter.fillRect(rect(), m_theme.tokens().panel);
    painter.fillRect(QRect(width() - 1, 0, 1, height()), m_theme.tokens().line);
}

} // namespace ui
