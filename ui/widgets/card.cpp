// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/widgets/card.h"

#include "ui/widgets/paint.h"

#include <QKeyEvent>
#include <QPainter>
#include <QTimerEvent>

namespace ui {

namespace {

constexpr int frameMs = 34; // a little more than a thirtieth of a second: never more than 30 repaints

} // namespace

Card::Card(Theme &theme, const QString &title, QWidget *parent)
    : QWidget(parent)
    , m_theme(theme)
{
    setTitle(title);
    setFocusPolicy(Qt::TabFocus);
    connect(&m_theme, &Theme::changed, this, qOverload<>(&QWidget::update));
}

void Card::setTitle(const QString &title)
{
    if (title == m_title)
        return;
    m_title = title;
    setAccessibleName(title);
    scheduleUpdate();
}

void Card::setSummary(const QString &summary)
{
    if (summary == m_summary)
        return;
    m_summary = summary;
    setAccessibleDescription(summary);
    scheduleUpdate();
}

void Card::setHeaderReserve(int pixels)
{
    m_reserve = pixels;
    update();
}

QRectF Card::contentRect() const
{
    return QRectF(padding, headerHeight, width() - 2 * padding, height() - headerHeight - padding + 2);
}

// At once when the last paint is a frame ago, else when the frame is over.
void Card::scheduleUpdate()
{
    if (!isVisible() || m_frame.isActive())
        return;
    const qint64 since = m_sincePaint.isValid() ? m_sincePaint.elapsed() : frameMs;
    if (since >= frameMs)
        update();
    else
        m_frame.start(int(frameMs - since), Qt::PreciseTimer, this);
}

void Card::timerEvent(QTimerEvent *event)
{
    if (event->timerId() != m_frame.timerId()) {
        QWidget::timerEvent(event);
        return;
    }
    m_frame.stop();
    update();
}

void Card::showEvent(QShowEvent *event)
{
    QWidget::showEvent(event);
    update();
}

void Card::paintEvent(QPaintEvent *)
{
    m_sincePaint.start();
    ++m_paints;
    const Tokens &c = m_theme.tokens();
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    paint::frame(painter, rect(), c.panel, hasFocus() ? c.accent : c.line, 10);
    const QFont titleFont = m_theme.ui(13, QFont::DemiBold);
    const double titleWidth = paint::advance(titleFont, m_title) + 2;
    const double room = width() - 2 * padding - m_reserve;
    paint::text(painter, QRectF(padding, 8, room, 22), m_title, titleFont, c.text);
    const QRectF right(padding + titleWidth + 12, 8, room - titleWidth - 12, 22);
    if (right.width() > 40)
        paint::text(painter, right, m_summary, m_theme.ui(11.5), c.muted, Qt::AlignRight);
    paintContent(painter, contentRect());
}

void Card::paintContent(QPainter &, const QRectF &) { }

void Card::mouseDoubleClickEvent(QMouseEvent *)
{
    emit enlargeRequested();
}

void Card::keyPressEvent(QKeyEvent *event)
{
    if (event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter)
        emit enlargeRequested();
    else
        QWidget::keyPressEvent(event);
}

} // namespace ui
