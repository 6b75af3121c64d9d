// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/widgets/comparison_table.h"

#include "ui/widgets/paint.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>

#include <algorithm>
#include <cmath>

namespace ui {

namespace {

constexpr double gap = 20;      // between columns
constexpr double barRoom = 110; // least width of a bar that says something
constexpr int headHeight = 26, lineHeight = 28, stackedHeight = 66;

} // namespace

ComparisonTable::ComparisonTable(Theme &theme, QWidget *parent)
    : QWidget(parent)
    , m_theme(theme)
{
    setFocusPolicy(Qt::StrongFocus);
    setAccessibleName(tr("Figures before and after"));
    QSizePolicy policy(QSizePolicy::Preferred, QSizePolicy::Minimum);
    policy.setHeightForWidth(true);
    setSizePolicy(policy);
    connect(&m_theme, &Theme::changed, this, qOverload<>(&QWidget::update));
}

void ComparisonTable::setRows(const ComparisonHeads &heads, const QList<ComparisonRow> &rows)
{
    m_heads = heads;
    m_rows = rows;
    setCurrent(std::min(m_current, int(rows.size()) - 1));
    updateGeometry();
    update();
}

ComparisonTable::Columns ComparisonTable::columns() const
{
    const QFont name = m_theme.ui(12.5), digits = m_theme.mono(12), head = m_theme.ui(11, QFont::Medium);
    const auto wide = [&](const QString &title, const QFont &font, QString ComparisonRow::*text) {
        double width = title.isEmpty() ? 0 : paint::advance(head, title);
        for (const ComparisonRow &row : m_rows)
            width = std::max(width, paint::advance(font, row.*text));
        return width > 0 ? std::ceil(width) + gap : 0;
    };
    return {wide({}, name, &ComparisonRow::name), wide(m_heads.before, digits, &ComparisonRow::before),
            wide(m_heads.after, digits, &ComparisonRow::after), wide(m_heads.change, digits, &ComparisonRow::change),
            wide(m_heads.interval, digits, &ComparisonRow::interval)};
}

bool ComparisonTable::fitsInLines(double width) const
{
    return columns().sum() - gap <= width;
}

int ComparisonTable::rowHeight(double width) const
{
    return fitsInLines(width) ? lineHeight : stackedHeight;
}

int ComparisonTable::heightFor(int width) const
{
    if (m_rows.isEmpty())
        return 0;
    const bool lines = fitsInLines(width);
    return (lines ? headHeight : 0) + int(m_rows.size()) * (lines ? lineHeight : stackedHeight) + 1;
}

QSize ComparisonTable::sizeHint() const
{
    return {int(columns().sum() + barRoom), heightFor(int(columns().sum()))};
}

QSize ComparisonTable::minimumSizeHint() const
{
    return {160, heightFor(width())};
}

QColor ComparisonTable::toneColor(const ComparisonRow &row, bool text) const
{
    const Tokens &c = m_theme.tokens();
    switch (row.tone) {
    case ComparisonRow::Tone::Better:
        return text ? c.okText : c.ok;
    case ComparisonRow::Tone::Worse:
        return text ? c.badText : c.bad;
    case ComparisonRow::Tone::Neutral:
        break;
    }
    return c.muted;
}

// A mark at "no change", the interval as a thick part of the line; a point still shows.
void ComparisonTable::paintBar(QPainter &painter, const ComparisonRow &row, const QRectF &rect) const
{
    const Tokens &c = m_theme.tokens();
    const double middle = std::round(rect.center().x()), half = rect.width() / 2 - 4, y = rect.center().y();
    painter.fillRect(QRectF(rect.x(), std::round(y) - 1, rect.width(), 2), c.line);
    painter.fillRect(QRectF(middle, y - 7, 1, 14), c.faint);
    const double from = middle + row.low * half, to = middle + row.high * half;
    const double length = std::max(7.0, to - from);
    paint::bar(painter, {(from + to - length) / 2, y - 3.5, length, 7}, toneColor(row, false), 3.5);
}

void ComparisonTable::paintLine(QPainter &painter, const ComparisonRow &row, const QRectF &rect,
                                const Columns &columns) const
{
    const Tokens &c = m_theme.tokens();
    const QFont digits = m_theme.mono(12);
    double x = rect.x();
    const auto column = [&](double width, const QString &text, const QFont &font, const QColor &color) {
        if (width > 0)
            paint::text(painter, {x, rect.y(), width - gap + 2, rect.height()}, text, font, color);
        x += width;
    };
    column(columns.name, row.name, m_theme.ui(12.5), c.text);
    column(columns.before, row.before, digits, row.after.isEmpty() ? c.text : c.muted);
    column(columns.after, row.after, digits, c.text);
    column(columns.change, row.change, digits, toneColor(row, true));
    column(columns.interval, row.interval, digits, c.muted);
    if (row.hasBar && rect.right() - x >= barRoom)
        paintBar(painter, row, {x, rect.y(), rect.right() - x, rect.height()});
}

void ComparisonTable::paintStacked(QPainter &painter, const ComparisonRow &row, const QRectF &rect) const
{
    const Tokens &c = m_theme.tokens();
    const QFont digits = m_theme.mono(11.5);
    const QRectF first(rect.x(), rect.y() + 5, rect.width(), 18), second = first.translated(0, 18),
                                                                  third = second.translated(0, 18);
    paint::text(painter, first, row.name, m_theme.ui(12.5), c.text);
    const QString values = row.after.isEmpty() ? row.before : QStringLiteral("%1 → %2").arg(row.before, row.after);
    paint::text(painter, second, values, digits, c.text);
    paint::text(painter, third, row.change, digits, toneColor(row, true));
    const double used = paint::advance(digits, row.change) + (row.change.isEmpty() ? 0 : 12);
    paint::text(painter, third.adjusted(used, 0, 0, 0), row.interval, digits, c.muted);
    const double left = paint::advance(digits, values) + 24;
    if (row.hasBar && rect.width() - left >= 80)
        paintBar(painter, row, {rect.right() - 110, first.y(), 110, 18});
}

void ComparisonTable::paintRows(QPainter &painter, double width) const
{
    const Tokens &c = m_theme.tokens();
    const bool lines = fitsInLines(width);
    const Columns columns = this->columns();
    double y = 0;
    if (lines && !m_rows.isEmpty()) {
        const QFont head = m_theme.ui(11, QFont::Medium);
        double x = columns.name;
        for (const auto &[title, room] : {std::pair(m_heads.before, columns.before),
                                          {m_heads.after, columns.after},
                                          {m_heads.change, columns.change},
                                          {m_heads.interval, columns.interval}}) {
            paint::text(painter, {x, 0, std::max(0.0, room - gap + 2), headHeight}, title, head, c.quiet);
            x += room;
        }
        y = headHeight;
    }
    const int height = lines ? lineHeight : stackedHeight;
    for (int i = 0; i < m_rows.size(); ++i, y += height) {
        painter.fillRect(QRectF(0, y, width, 1), c.line);
        if (hasFocus() && i == m_current)
            paint::bar(painter, {0, y + 2, width, height - 3.0}, m_theme.lifted(), 5);
        if (lines)
            paintLine(painter, m_rows[i], {0, y + 1, width, height - 1.0}, columns);
        else
            paintStacked(painter, m_rows[i], {0, y, width, double(height)});
    }
}

void ComparisonTable::paintEvent(QPaintEvent *)
{
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    paintRows(painter, width());
}

void ComparisonTable::setCurrent(int row)
{
    m_current = std::clamp(row, 0, std::max(0, int(m_rows.size()) - 1));
    setAccessibleDescription(m_rows.isEmpty() ? QString() : m_rows[m_current].sentence);
    update();
    const int height = rowHeight(width());
    const int top = (fitsInLines(width()) ? headHeight : 0) + m_current * height;
    if (hasFocus())
        emit rowReached(m_current == 0 ? 0 : top, top + height);
}

int ComparisonTable::rowAt(double y) const
{
    const double top = fitsInLines(width()) ? headHeight : 0;
    const int row = int(std::floor((y - top) / rowHeight(width())));
    return row >= 0 && row < m_rows.size() ? row : -1;
}

void ComparisonTable::keyPressEvent(QKeyEvent *event)
{
    switch (event->key()) {
    case Qt::Key_Down:
        setCurrent(m_current + 1);
        break;
    case Qt::Key_Up:
        setCurrent(m_current - 1);
        break;
    case Qt::Key_Home:
        setCurrent(0);
        break;
    case Qt::Key_End:
        setCurrent(int(m_rows.size()) - 1);
        break;
    default:
        QWidget::keyPressEvent(event);
    }
}

void ComparisonTable::mousePressEvent(QMouseEvent *event)
{
    if (const int row = rowAt(event->position().y()); row >= 0)
        setCurrent(row);
}

void ComparisonTable::focusInEvent(QFocusEvent *event)
{
    QWidget::focusInEvent(event);
    setCurrent(m_current);
}

bool ComparisonTable::event(QEvent *event)
{
    if (event->type() == QEvent::ToolTip) {
        const auto *help = static_cast<QHelpEvent *>(event);
        const int row = rowAt(help->pos().y());
        QToolTip::showText(help->globalPos(), row >= 0 ? m_rows[row].sentence : QString(), this);
        return true;
    }
    return QWidget::event(event);
}

} // namespace ui
