// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/theme.h"

#include <QList>
#include <QString>
#include <QWidget>

namespace ui {

/// One figure of two settings; texts as they are shown, all but the name may be empty.
struct ComparisonRow {
    enum class Tone { Neutral, Better, Worse };

    QString name;
    QString before;
    QString after;
    QString change;
    QString interval;
    QString sentence; ///< all of it, for tool tips and assistive programs
    Tone tone = Tone::Neutral;
    bool hasBar = false;
    double low = 0; ///< ends of the bar, -1..1; improvements lie at the right of the middle
    double high = 0;
};

/// Over the columns; a column without a head is left out.
struct ComparisonHeads {
    QString before;
    QString after;
    QString change;
    QString interval;
};

/// Figures before and after with the interval of their change, as text and as a bar on a line with a mark at "no
/// change". Where the width does not hold the columns, first the bars go, then each row takes two lines; nothing is
/// cut.
///
/// Arrows, Home and End walk through the rows; the row that the focus is on is told to assistive programs.
class ComparisonTable : public QWidget {
    Q_OBJECT
public:
    explicit ComparisonTable(Theme &theme, QWidget *parent = nullptr);

    void setRows(const ComparisonHeads &heads, const QList<ComparisonRow> &rows);
    [[nodiscard]] const QList<ComparisonRow> &rows() const { return m_rows; }
    [[nodiscard]] int current() const { return m_current; }
    /// Whether a width leaves one line for each row.
    [[nodiscard]] bool fitsInLines(double width) const;
    [[nodiscard]] int heightFor(int width) const;
    /// Paints all rows from the painter's origin on, as for an image.
    void paintRows(QPainter &painter, double width) const;

    [[nodiscard]] bool hasHeightForWidth() const override { return true; }
    [[nodiscard]] int heightForWidth(int width) const override { return heightFor(width); }
    [[nodiscard]] QSize sizeHint() const override;
    [[nodiscard]] QSize minimumSizeHint() const override;

signals:
    /// The row with this vertical range should be in sight.
    void rowReached(int top, int bottom);

protected:
    void paintEvent(QPaintEvent *event) override;
    void keyPressEvent(QKeyEvent *event) override;
    void mousePressEvent(QMouseEvent *event) override;
    void focusInEvent(QFocusEvent *event) override;
    bool event(QEvent *event) override;

private:
    struct Columns {
        double name = 0, before = 0, after = 0, change = 0, interval = 0; ///< widths with their gaps
        [[nodiscard]] double sum() const { return name + before + after + change + interval; }
    };
    [[nodiscard]] Columns columns() const;
    [[nodiscard]] int rowHeight(double width) const;
    [[nodiscard]] QColor toneColor(const ComparisonRow &row, bool text) const;
    void paintLine(QPainter &painter, const ComparisonRow &row, const QRectF &rect, const Columns &columns) const;
    void paintStacked(QPainter &painter, const ComparisonRow &row, const QRectF &rect) const;
    void paintBar(QPainter &painter, const ComparisonRow &row, const QRectF &rect) const;
    void setCurrent(int row);
    [[nodiscard]] int rowAt(double y) const;

    Theme &m_theme;
    ComparisonHeads m_heads;
    QList<ComparisonRow> m_rows;
    int m_current = 0;
};

} // namespace ui
