// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/theme.h"

#include <QList>
#include <QString>

class QPainter;

namespace ui {

/// One request's share of a step, as a row shows it.
struct BatchRow {
    QString name;  ///< "#91"
    QString label; ///< "decode", "prefill 512 / 3,100"
    int series = 0;
    int prefillTokens = 0;
    int decodeTokens = 0;
    QString who{}; ///< beside the number: which client of the server; empty for the window's own
};

namespace batch_rows {

constexpr double rowHeight = 25;

/// How many rows fit into `height`; when fewer than `count`, the last line is kept for "+ n more".
[[nodiscard]] int rowsThatFit(double height, int count);
/// Draws the rows: dot and number in the request's colour, a bar of its tokens against the largest share, its label.
void paint(QPainter &painter, const Theme &theme, const QRectF &rect, const QList<BatchRow> &rows);

} // namespace batch_rows

} // namespace ui
