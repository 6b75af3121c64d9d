// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/theme.h"

#include <QPainter>
#include <QRectF>
#include <QString>

#include <span>
#include <vector>

/// Small drawing steps that cards, rows and pages share. Colours come from the caller, fonts from the theme.
namespace ui::paint {

/// Text in a rectangle, vertically centred unless `alignment` says otherwise; elided at the right when too long.
void text(QPainter &painter, const QRectF &rect, const QString &string, const QFont &font, const QColor &color,
          Qt::Alignment alignment = Qt::AlignLeft);
/// A filled rounded rectangle.
void bar(QPainter &painter, const QRectF &rect, const QColor &color, double radius = 3, double opacity = 1);
/// A rounded rectangle with a crisp 1 px line.
void frame(QPainter &painter, const QRectF &rect, const QColor &fill, const QColor &line, double radius);
/// A round dot, 8 px wide by default.
void dot(QPainter &painter, const QPointF &center, const QColor &color, double radius = 4);
[[nodiscard]] double advance(const QFont &font, const QString &string);

/// Name, value in fixed-width digits and muted unit of one key figure; the baseline of the name is at `at`.
void figure(QPainter &painter, const Theme &theme, const QPointF &at, const QString &name, const QString &value,
            const QString &unit, const QColor &color);

/// One line of equally spaced values.
struct Line {
    std::span<const float> values; ///< NaN = a gap
    QColor color;
    double width = 1.5;
    bool fill = false; ///< area under it at 14 %
};
/// Draws a line without the cost of a long antialiased path: short runs, or one span per pixel column. `low` and
/// `high` are the values at the bottom and top of the rectangle.
void line(QPainter &painter, const QRectF &rect, const Line &line, double low, double high);

/// A vertical marker with its text, as a change of a knob is shown.
void marker(QPainter &painter, const Theme &theme, const QRectF &plot, double x, const QString &label);
/// A marker among others; `notice` is one of the engine itself, in the colour of warnings.
struct Mark {
    double x = 0;
    QString label;
    bool notice = false;
};
/// Several markers, oldest first. Labels that would lie on each other go to further rows; where three rows do not
/// suffice, the newer ones keep theirs.
void markers(QPainter &painter, const Theme &theme, const QRectF &plot, std::span<const Mark> marks);
/// Where the label of a marker stands: `left` of it where there is no room at the right, in row 0, 1, 2, or nowhere
/// (-1). `label` is ended by "…" when it is longer than half of the plot.
struct MarkPlace {
    QString label;
    bool left = false;
    int row = -1;
};
[[nodiscard]] std::vector<MarkPlace> placesOf(std::span<const Mark> marks, const QFont &font, double from, double to);
inline constexpr double markRowHeight = 15;

/// Faint horizontal grid lines, ends included.
void grid(QPainter &painter, const Theme &theme, const QRectF &plot, int lines = 4);
/// Two lines in the middle of an empty plot: what will appear, and how to get it.
void empty(QPainter &painter, const Theme &theme, const QRectF &rect, const QString &what, const QString &how);

} // namespace ui::paint
