// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/widgets/batch_rows.h"

#include "ui/format.h"
#include "ui/widgets/paint.h"

#include <QCoreApplication>

#include <algorithm>

namespace ui::batch_rows {

int rowsThatFit(double height, int count)
{
    const int fit = std::max(1, int(height / rowHeight));
    return count <= fit ? count : std::max(0, fit - 1);
}

void paint(QPainter &painter, const Theme &theme, const QRectF &rect, const QList<BatchRow> &rows)
{
    const Tokens &c = theme.tokens();
    const int shown = rowsThatFit(rect.height(), int(rows.size()));
    int most = 8; // a decode-only step must not look like full bars
    for (const BatchRow &row : rows)
        most = std::max(most, row.prefillTokens + row.decodeTokens);
    const bool named = std::any_of(rows.begin(), rows.end(), [](const BatchRow &row) { return !row.who.isEmpty(); });
    const double numberWidth = 62, labelWidth = 150;
    const double nameWidth = named ? numberWidth + std::clamp(rect.width() * .2, 60.0, 160.0) : numberWidth;
    const double barWidth = std::max(20.0, rect.width() - nameWidth - labelWidth);
    for (int i = 0; i < shown; ++i) {
        const BatchRow &row = rows[i];
        const double y = rect.y() + i * rowHeight + 4;
        paint::dot(painter, QPointF(rect.x() + 6, y + 6), Theme::series(row.series));
        paint::text(painter, QRectF(rect.x() + 18, y - 4, numberWidth - 20, 20), row.name, theme.mono(12), c.text);
        if (!row.who.isEmpty())
            paint::text(painter, QRectF(rect.x() + numberWidth, y - 4, nameWidth - numberWidth - 8, 20), row.who,
                        theme.ui(12), c.muted);
        const QRectF track(rect.x() + nameWidth, y, barWidth, 12);
        paint::bar(painter, track, c.raised);
        const double filled = std::max(4.0, barWidth * (row.prefillTokens + row.decodeTokens) / most);
        paint::bar(painter, QRectF(track.x(), y, filled, 12), Theme::series(row.series), 3, .9);
        paint::text(painter, QRectF(track.right() + 12, y - 4, labelWidth - 12, 20), row.label, theme.ui(12), c.muted);
    }
    if (shown < rows.size()) {
        const QString more =
            QCoreApplication::translate("BatchRows", "and %1 more").arg(format::count(rows.size() - shown));
        paint::text(painter, QRectF(rect.x() + 18, rect.y() + shown * rowHeight, rect.width() - 18, 20), more,
                    theme.ui(12), c.muted);
    }
}

} // namespace ui::batch_rows
