// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/widgets/page_map.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPaintEvent>
#include <QPainter>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ui {

namespace {

constexpr double tallest = 6000; // pixels; keeps the picture of the map below some tens of megabytes

} // namespace

PageMap::PageMap(Theme &theme, QWidget *parent)
    : QWidget(parent)
    , m_theme(theme)
{
    setMouseTracking(true);
    setFocusPolicy(Qt::TabFocus);
    setAccessibleName(tr("KV page map"));
    connect(&m_theme, &Theme::changed, this, [this] {
        rebuild();
        update();
    });
}

int PageMap::setCells(const QList<quint16> &cells)
{
    if (cells.size() != m_cells.size() || m_image.isNull() || m_image.devicePixelRatio() != devicePixelRatioF()) {
        m_cells = cells;
        if (m_current >= m_cells.size())
            setCurrent(-1);
        rebuild();
        update();
        return int(cells.size());
    }
    int changes = 0;
    for (qsizetype i = 0; i < cells.size(); ++i) {
        if (cells[i] == m_cells[i])
            continue;
        m_cells[i] = cells[i];
        stamp(int(i));
        ++changes;
    }
    if (changes > 0)
        update(); // one blit is cheaper than a region of a thousand cells
    return changes;
}

void PageMap::setMaximumPitch(double pitch)
{
    m_maximumPitch = pitch;
    rebuild();
    update();
}

int PageMap::heightFor(int width, int least, double pitch) const
{
    const auto rowsAt = [&](double p) {
        const int columns = std::max(1, int((width + 2) / p));
        return double((m_cells.size() + columns - 1) / columns);
    };
    // A pool of very many blocks gives way: smaller squares before a picture that is higher than it may be.
    while (pitch > 3 && rowsAt(pitch) * pitch > tallest)
        pitch -= 1;
    return std::max(least, int(std::ceil(rowsAt(pitch) * pitch)));
}

double PageMap::gap() const
{
    return m_pitch >= 8 ? 2 : m_pitch >= 3 ? 1 : 0;
}

QRectF PageMap::cellRect(int index) const
{
    const double side = m_pitch - gap();
    return {(index % m_columns) * m_pitch, (index / m_columns) * m_pitch, side, side};
}

int PageMap::cellAt(const QPointF &point) const
{
    if (point.x() < 0 || point.y() < 0)
        return -1;
    const int column = int(point.x() / m_pitch);
    const int index = int(point.y() / m_pitch) * m_columns + column;
    return column < m_columns && index < m_cells.size() ? index : -1;
}

void PageMap::paintCell(QPainter &painter, const Theme &theme, const QRectF &rect, quint16 state)
{
    const Tokens &c = theme.tokens();
    const double radius = rect.width() >= 6 ? 2 : rect.width() >= 4 ? 1 : 0;
    const QRectF foot(rect.x() + 1, rect.bottom() - std::max(2.0, rect.height() / 4), rect.width() - 2,
                      std::max(1.0, rect.height() / 8));
    if (state & Cached) {
        painter.setPen(QPen(c.faint, 1));
        painter.setBrush(Qt::NoBrush);
        painter.drawRoundedRect(rect.adjusted(.5, .5, -.5, -.5), radius, radius);
        if (state & InWindow)
            painter.fillRect(foot, c.faint);
        return;
    }
    painter.setPen(Qt::NoPen);
    painter.setBrush(state & Free ? c.free : Theme::series(state & 0xff));
    painter.drawRoundedRect(rect, radius, radius);
    if (state & Shared) {
        painter.setBrush(c.panel);
        const double third = rect.width() / 3;
        painter.drawRoundedRect(QRectF(rect.x() + third, rect.y() + third, third, third), 1, 1);
    }
    if (state & InWindow)
        painter.fillRect(foot, c.panel);
}

QImage PageMap::sprite(quint16 state) const
{
    const double ratio = devicePixelRatioF();
    const int pixels = std::max(1, int(std::lround(m_pitch * ratio)));
    QImage image(pixels, pixels, QImage::Format_RGB32);
    image.setDevicePixelRatio(ratio);
    image.fill(m_theme.tokens().panel);
    QPainter painter(&image);
    painter.setRenderHint(QPainter::Antialiasing);
    paintCell(painter, m_theme, QRectF(0, 0, m_pitch - gap(), m_pitch - gap()), state);
    return image;
}

// The largest pitch of whole device pixels at which all cells fit; broken pixels would leave seams.
void PageMap::rebuild()
{
    m_sprites.clear();
    if (size().isEmpty())
        return;
    const double ratio = devicePixelRatioF();
    const auto fits = [&](double pitch) {
        const int columns = std::max(1, int(width() / pitch));
        const auto rows = (m_cells.size() + columns - 1) / columns;
        return double(rows) * pitch <= height() + gap();
    };
    m_pitch = std::floor(m_maximumPitch * ratio) / ratio;
    while (m_pitch > 1 / ratio && !fits(m_pitch))
        m_pitch -= 1 / ratio;
    m_columns = std::max(1, int((width() + gap()) / m_pitch));
    m_image = QImage(size() * ratio, QImage::Format_RGB32);
    m_image.setDevicePixelRatio(ratio);
    m_image.fill(m_theme.tokens().panel);
    for (qsizetype i = 0; i < m_cells.size(); ++i)
        stamp(int(i));
}

void PageMap::stamp(int index)
{
    auto it = m_sprites.find(m_cells[index]);
    if (it == m_sprites.end())
        it = m_sprites.insert(m_cells[index], sprite(m_cells[index]));
    const double ratio = m_image.devicePixelRatio();
    const int x = int(std::lround((index % m_columns) * m_pitch * ratio));
    const int y = int(std::lround((index / m_columns) * m_pitch * ratio));
    const int columns = std::min(it->width(), m_image.width() - x);
    for (int row = 0; columns > 0 && row < it->height() && y + row < m_image.height(); ++row)
        std::memcpy(m_image.scanLine(y + row) + x * 4, it->constScanLine(row), std::size_t(columns) * 4);
}

void PageMap::paintEvent(QPaintEvent *event)
{
    QPainter painter(this);
    const double ratio = m_image.devicePixelRatio();
    const QRectF seen(event->rect());
    painter.drawImage(seen, m_image, QRectF(seen.topLeft() * ratio, seen.size() * ratio)); // a scrolled map is tall
    if (m_current < 0)
        return;
    painter.setRenderHint(QPainter::Antialiasing);
    painter.setPen(QPen(m_theme.tokens().text, 1.5));
    painter.drawRoundedRect(cellRect(m_current).adjusted(-.5, -.5, .5, .5), 2, 2);
}

void PageMap::resizeEvent(QResizeEvent *)
{
    rebuild();
}

void PageMap::setCurrent(int index)
{
    if (index == m_current)
        return;
    m_current = index;
    update();
    emit currentChanged(index);
}

void PageMap::mouseMoveEvent(QMouseEvent *event)
{
    setCurrent(cellAt(event->position()));
}

void PageMap::leaveEvent(QEvent *)
{
    setCurrent(-1);
}

void PageMap::keyPressEvent(QKeyEvent *event)
{
    int step = 0;
    switch (event->key()) {
    case Qt::Key_Left:
        step = -1;
        break;
    case Qt::Key_Right:
        step = 1;
        break;
    case Qt::Key_Up:
        step = -m_columns;
        break;
    case Qt::Key_Down:
        step = m_columns;
        break;
    case Qt::Key_Escape:
        setCurrent(-1);
        return;
    default:
        QWidget::keyPressEvent(event);
        return;
    }
    if (!m_cells.isEmpty())
        setCurrent(std::clamp(m_current < 0 ? 0 : m_current + step, 0, int(m_cells.size()) - 1));
}

} // namespace ui
