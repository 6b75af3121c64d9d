// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/widgets/paint.h"

#include <QFontMetricsF>
#include <QImage>
#include <QPaintDevice>
#include <QPolygonF>

#include <algorithm>
#include <array>
#include <cmath>

namespace ui::paint {

void text(QPainter &painter, const QRectF &rect, const QString &string, const QFont &font, const QColor &color,
          Qt::Alignment alignment)
{
    if (!(alignment & Qt::AlignVertical_Mask))
        alignment |= Qt::AlignVCenter;
    painter.setFont(font);
    painter.setPen(color);
    const QFontMetricsF metrics(font);
    const bool fits = metrics.horizontalAdvance(string) <= rect.width() + 0.5;
    painter.drawText(rect, int(alignment) | Qt::TextDontClip,
                     fits ? string : metrics.elidedText(string, Qt::ElideRight, rect.width()));
}

void bar(QPainter &painter, const QRectF &rect, const QColor &color, double radius, double opacity)
{
    QColor fill = color;
    fill.setAlphaF(float(fill.alphaF() * opacity));
    painter.setPen(Qt::NoPen);
    painter.setBrush(fill);
    const double r = std::min({radius, rect.width() / 2, rect.height() / 2});
    painter.drawRoundedRect(rect, r, r);
}

void frame(QPainter &painter, const QRectF &rect, const QColor &fill, const QColor &line, double radius)
{
    painter.setPen(QPen(line, 1));
    painter.setBrush(fill);
    painter.drawRoundedRect(rect.adjusted(.5, .5, -.5, -.5), radius, radius);
}

void dot(QPainter &painter, const QPointF &center, const QColor &color, double radius)
{
    painter.setPen(Qt::NoPen);
    painter.setBrush(color);
    painter.drawEllipse(center, radius, radius);
}

double advance(const QFont &font, const QString &string)
{
    return QFontMetricsF(font).horizontalAdvance(string);
}

void figure(QPainter &painter, const Theme &theme, const QPointF &at, const QString &name, const QString &value,
            const QString &unit, const QColor &color)
{
    const QFont small = theme.ui(11.5), large = theme.mono(22, QFont::DemiBold);
    painter.setFont(small);
    painter.setPen(theme.tokens().muted);
    painter.drawText(at, name);
    painter.setFont(large);
    painter.setPen(color);
    painter.drawText(at + QPointF(0, 26), value);
    painter.setFont(small);
    painter.setPen(theme.tokens().muted);
    painter.drawText(at + QPointF(advance(large, value) + 5, 26), unit);
}

namespace {

/// Maps values to points of one plot.
struct Scale {
    QRectF rect;
    double low, high;
    [[nodiscard]] double y(double value) const
    {
        return rect.bottom() - rect.height() * (std::clamp(value, low, high) - low) / (high - low);
    }
    [[nodiscard]] double x(qsizetype i, qsizetype count) const
    {
        return rect.x() + rect.width() * double(i) / double(count - 1);
    }
};

void fillArea(QPainter &painter, const Scale &scale, const Line &line, int columns)
{
    const auto count = qsizetype(line.values.size());
    const qsizetype points = std::min<qsizetype>(count, columns);
    QPolygonF area;
    area.reserve(points + 2);
    for (qsizetype i = 0; i < points; ++i) {
        const float value = line.values[std::size_t(i * (count - 1) / (points - 1))];
        area << QPointF(scale.x(i, points), std::isnan(value) ? scale.rect.bottom() : scale.y(value));
    }
    area << scale.rect.bottomRight() << scale.rect.bottomLeft();
    QColor fill = line.color;
    fill.setAlphaF(.14f);
    painter.setPen(Qt::NoPen);
    painter.setBrush(fill);
    painter.setRenderHint(QPainter::Antialiasing, false);
    painter.drawPolygon(area);
    painter.setRenderHint(QPainter::Antialiasing);
}

// Qt's stroker makes one long path cost far more than its parts: runs of 24 points.
void strokeRuns(QPainter &painter, const Scale &scale, const Line &line)
{
    constexpr qsizetype run = 24;
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(line.color, line.width, Qt::SolidLine, Qt::RoundCap, Qt::BevelJoin));
    const auto count = qsizetype(line.values.size());
    QPolygonF points;
    for (qsizetype i = 0; i < count; ++i) {
        const float value = line.values[std::size_t(i)];
        const bool gap = std::isnan(value);
        if (!gap)
            points << QPointF(scale.x(i, count), scale.y(value));
        if (gap || points.size() > run || i + 1 == count) {
            if (points.size() > 1)
                painter.drawPolyline(points);
            points = gap || points.isEmpty() ? QPolygonF() : QPolygonF(QList<QPointF>{points.constLast()});
        }
    }
}

// More points than pixels: each device pixel column is one span from its least to its greatest value, with soft ends.
void drawSpans(QPainter &painter, const Scale &scale, const Line &line, int columns, double ratio)
{
    const auto count = double(line.values.size());
    QImage image(columns, int(scale.rect.height() * ratio) + 4, QImage::Format_ARGB32_Premultiplied);
    image.setDevicePixelRatio(ratio);
    image.fill(Qt::transparent);
    const double half = line.width * ratio / 2;
    float last = NAN;
    for (int x = 0; x < columns; ++x) {
        const auto begin = std::size_t(x * count / columns), end = std::size_t((x + 1) * count / columns);
        float low = last, high = last; // joins the column before
        for (std::size_t i = begin; i < std::max(end, begin + 1) && i < line.values.size(); ++i) {
            last = line.values[i];
            low = std::fmin(low, last);
            high = std::fmax(high, last);
        }
        if (std::isnan(low))
            continue;
        const double top = (scale.y(high) - scale.rect.y()) * ratio + 2 - half;
        const double bottom = (scale.y(low) - scale.rect.y()) * ratio + 2 + half;
        for (int y = std::max(0, int(top)); y <= std::min(image.height() - 1, int(bottom)); ++y) {
            const double cover = std::clamp(std::min(bottom, y + 1.0) - std::max(top, double(y)), 0.0, 1.0);
            reinterpret_cast<QRgb *>(image.scanLine(y))[x] =
                qPremultiply(qRgba(line.color.red(), line.color.green(), line.color.blue(), int(255 * cover)));
        }
    }
    painter.drawImage(QPointF(scale.rect.x(), scale.rect.y() - 2 / ratio), image);
}

} // namespace

void line(QPainter &painter, const QRectF &rect, const Line &line, double low, double high)
{
    if (line.values.size() < 2 || rect.isEmpty() || !(high > low))
        return;
    const Scale scale{rect, low, high};
    const double ratio = painter.device()->devicePixelRatioF();
    const int columns = std::max(2, int(rect.width() * ratio));
    if (line.fill)
        fillArea(painter, scale, line, columns);
    if (int(line.values.size()) <= columns / 2)
        strokeRuns(painter, scale, line);
    else
        drawSpans(painter, scale, line, columns, ratio);
}

void marker(QPainter &painter, const Theme &theme, const QRectF &plot, double x, const QString &label)
{
    const double at = std::round(x);
    painter.fillRect(QRectF(at, plot.y(), 1, plot.height()), theme.tokens().accent);
    const QFont font = theme.ui(10.5, QFont::Medium);
    const double width = advance(font, label) + 2;
    const bool left = at + 4 + width > plot.right(); // no room at the right of the line
    text(painter, QRectF(left ? at - 4 - width : at + 4, plot.y() + 1, width, 15), label, font, theme.tokens().accent);
}

std::vector<MarkPlace> placesOf(std::span<const Mark> marks, const QFont &font, double from, double to)
{
    constexpr std::size_t rows = 3;
    constexpr double gap = 4;
    std::array<std::vector<std::pair<double, double>>, rows> taken;
    std::vector<MarkPlace> places(marks.size());
    const QFontMetricsF metrics(font);
    for (std::size_t i = marks.size(); i-- > 0;) {
        MarkPlace &place = places[i];
        place.label = metrics.elidedText(marks[i].label, Qt::ElideRight, (to - from) / 2);
        const double width = metrics.horizontalAdvance(place.label) + 2;
        place.left = marks[i].x + gap + width > to;
        const double begin = place.left ? marks[i].x - gap - width : marks[i].x + gap;
        for (std::size_t row = 0; row < rows && place.row < 0; ++row) {
            const bool free = std::none_of(taken[row].begin(), taken[row].end(), [&](const auto &other) {
                return begin < other.second + gap && other.first < begin + width + gap;
            });
            if (!free)
                continue;
            place.row = int(row);
            taken[row].emplace_back(begin, begin + width);
        }
    }
    return places;
}

void markers(QPainter &painter, const Theme &theme, const QRectF &plot, std::span<const Mark> marks)
{
    const QFont font = theme.ui(10.5, QFont::Medium);
    const std::vector<MarkPlace> places = placesOf(marks, font, plot.left(), plot.right());
    const auto colorOf = [&](const Mark &mark) {
        return mark.notice ? theme.tokens().warnText : theme.tokens().accent;
    };
    for (const Mark &mark : marks)
        painter.fillRect(QRectF(std::round(mark.x), plot.y(), 1, plot.height()), colorOf(mark));
    QColor plate = theme.tokens().panel; // keeps a label readable over bars
    plate.setAlphaF(.85f);
    for (std::size_t i = 0; i < marks.size(); ++i) {
        if (places[i].row < 0)
            continue;
        const double width = advance(font, places[i].label) + 2;
        const double at = std::round(marks[i].x);
        const double x = places[i].left ? at - 4 - width : at + 4;
        const QRectF label(x, plot.y() + 1 + places[i].row * markRowHeight, width, markRowHeight);
        painter.fillRect(label, plate);
        text(painter, label, places[i].label, font, colorOf(marks[i]));
    }
}

void grid(QPainter &painter, const Theme &theme, const QRectF &plot, int lines)
{
    QColor color = theme.tokens().line;
    color.setAlphaF(.7f);
    for (int i = 0; i < lines; ++i)
        painter.fillRect(QRectF(plot.x(), std::round(plot.y() + i * plot.height() / (lines - 1)), plot.width(), 1),
                         color);
}

void empty(QPainter &painter, const Theme &theme, const QRectF &rect, const QString &what, const QString &how)
{
    const double middle = rect.center().y();
    painter.setFont(theme.ui(12.5));
    painter.setPen(theme.tokens().muted);
    painter.drawText(QRectF(rect.x(), rect.y(), rect.width(), std::max(18.0, middle - 2 - rect.y())),
                     Qt::AlignHCenter | Qt::AlignBottom | Qt::TextWordWrap, what);
    painter.setFont(theme.ui(11.5));
    painter.setPen(theme.tokens().quiet);
    painter.drawText(QRectF(rect.x(), middle, rect.width(), std::max(18.0, rect.bottom() - middle)),
                     Qt::AlignHCenter | Qt::AlignTop | Qt::TextWordWrap, how);
}

} // namespace ui::paint
