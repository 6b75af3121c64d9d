// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/widgets/plot.h"

#include "ui/format.h"
#include "ui/widgets/paint.h"

#include <qcustomplot.h>

#include <QBoxLayout>
#include <QLabel>
#include <QMouseEvent>
#include <QSaveFile>
#include <QTimerEvent>

#include <algorithm>
#include <cmath>

namespace ui {

namespace {

constexpr int replotMs = 100;

// One call of drawLines instead of one long path: wide antialiased paths cost ten times their parts.
class FastGraph : public QCPGraph {
public:
    using QCPGraph::QCPGraph;

protected:
    void drawLinePlot(QCPPainter *painter, const QVector<QPointF> &points) const override
    {
        if (painter->pen().style() == Qt::NoPen || points.size() < 2)
            return;
        applyDefaultAntialiasingHint(painter);
        QVector<QLineF> segments;
        segments.reserve(points.size());
        for (qsizetype i = 0; i + 1 < points.size(); ++i)
            segments.append(QLineF(points[i], points[i + 1]));
        painter->drawLines(segments);
    }
};

void styleAxis(QCPAxis *axis, const Theme &theme)
{
    const Tokens &c = theme.tokens();
    axis->setBasePen(QPen(c.line, 1));
    axis->setTickPen(QPen(c.line, 1));
    axis->setSubTickPen(Qt::NoPen);
    axis->setTickLabelColor(c.muted);
    axis->setLabelColor(c.muted);
    axis->setTickLabelFont(theme.mono(11));
    axis->setLabelFont(theme.ui(11.5));
    QColor grid = c.line;
    grid.setAlphaF(.7f);
    axis->grid()->setPen(QPen(grid, 1));
    axis->grid()->setZeroLinePen(QPen(grid, 1));
}

} // namespace

Plot::Plot(Theme &theme, const QString &name, const QString &xLabel, const QString &yLabel, QWidget *parent)
    : QWidget(parent)
    , m_theme(theme)
    , m_plot(new QCustomPlot(this))
    , m_values(new QLabel(m_plot))
{
    setAccessibleName(name);
    setAccessibleDescription(tr("Plot of %1; wheel zooms, dragging moves, double click follows again").arg(yLabel));
    m_plot->setAccessibleName(name);
    m_plot->setAccessibleDescription(accessibleDescription());
    m_plot->setInteractions(QCP::iRangeDrag | QCP::iRangeZoom);
    m_plot->axisRect()->setRangeZoom(Qt::Horizontal);
    m_plot->axisRect()->setRangeDrag(Qt::Horizontal);
    m_plot->setNoAntialiasingOnDrag(true);
    m_plot->xAxis->setLabel(xLabel);
    m_plot->yAxis->setLabel(yLabel);
    m_plot->installEventFilter(this);
    m_plot->setMouseTracking(true);
    m_values->setAttribute(Qt::WA_TransparentForMouseEvents);
    m_values->setMargin(6);
    m_values->hide();
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->addWidget(m_plot);
    const auto leave = [this] { m_follows = false; };
    connect(m_plot, &QCustomPlot::mouseWheel, this, leave);
    connect(m_plot, &QCustomPlot::mouseDoubleClick, this, &Plot::follow);
    connect(m_plot, &QCustomPlot::mouseMove, this, [this, leave](QMouseEvent *event) {
        if (event->buttons() & Qt::LeftButton)
            leave();
        showValues(event->position());
    });
    connect(&m_theme, &Theme::changed, this, &Plot::applyTheme);
    applyTheme();
}

Plot::~Plot() = default;

int Plot::addLine(const QString &name, int seriesIndex, const QString &unit, bool fill)
{
    new FastGraph(m_plot->xAxis, m_plot->yAxis); // owned by the plot, which registers it
    m_lines.append({name, unit, seriesIndex, fill});
    applyTheme();
    return int(m_lines.size()) - 1;
}

void Plot::setData(int line, const std::vector<double> &x, const std::vector<double> &y)
{
    m_plot->graph(line)->setData(QVector<double>(x.begin(), x.end()), QVector<double>(y.begin(), y.end()), true);
    replotSoon();
}

void Plot::setMarkers(const QList<Marker> &markers)
{
    m_markers = markers;
    m_plot->clearItems();
    const QRectF area = m_plot->axisRect()->rect();
    const double scale = m_to > m_from ? area.width() / (m_to - m_from) : 0;
    std::vector<paint::Mark> marks;
    for (const Marker &marker : markers)
        marks.push_back({area.left() + (marker.x - m_from) * scale, marker.text, marker.notice});
    const QFont font = m_theme.ui(10.5, QFont::Medium);
    const std::vector<paint::MarkPlace> places = paint::placesOf(marks, font, area.left(), area.right());
    for (qsizetype i = 0; i < markers.size(); ++i) {
        const QColor color = markers[i].notice ? m_theme.tokens().warnText : m_theme.tokens().accent;
        auto *line = new QCPItemStraightLine(m_plot);
        line->point1->setCoords(markers[i].x, 0);
        line->point2->setCoords(markers[i].x, 1);
        line->setPen(QPen(color, 1));
        const paint::MarkPlace &place = places[std::size_t(i)];
        if (place.row < 0)
            continue;
        auto *text = new QCPItemText(m_plot);
        text->position->setTypeY(QCPItemPosition::ptAxisRectRatio);
        text->position->setCoords(markers[i].x, 0.02 + place.row * paint::markRowHeight / std::max(1.0, area.height()));
        text->setPositionAlignment((place.left ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignTop);
        text->setText(QLatin1Char(' ') + place.label + QLatin1Char(' '));
        text->setFont(font);
        text->setColor(color);
        QColor behind = m_theme.tokens().panel; // lines of data do not run through the text
        behind.setAlphaF(.75f);
        text->setBrush(behind);
    }
    replotSoon();
}

void Plot::setWholeNumbers()
{
    const QSharedPointer<QCPAxisTickerFixed> ticker(new QCPAxisTickerFixed);
    ticker->setTickStep(1);
    ticker->setScaleStrategy(QCPAxisTickerFixed::ssMultiples);
    m_plot->yAxis->setTicker(ticker);
}

void Plot::setFollowRange(double from, double to)
{
    m_from = from;
    m_to = to;
    replotSoon();
}

void Plot::follow()
{
    m_follows = true;
    replotSoon();
}

void Plot::applyTheme()
{
    const Tokens &c = m_theme.tokens();
    m_plot->setBackground(QBrush(c.panel));
    for (QCPAxis *axis : {m_plot->xAxis, m_plot->yAxis})
        styleAxis(axis, m_theme);
    for (int i = 0; i < m_lines.size() && i < m_plot->graphCount(); ++i) {
        const QColor color = Theme::series(m_lines[i].series);
        m_plot->graph(i)->setPen(QPen(color, 1));
        QColor area = color;
        area.setAlphaF(.14f);
        m_plot->graph(i)->setBrush(m_lines[i].fill ? QBrush(area) : QBrush(Qt::NoBrush));
        m_plot->graph(i)->setAntialiasedFill(false);
    }
    m_values->setFont(m_theme.mono(11));
    m_values->setStyleSheet(QStringLiteral("background:%1; color:%2; border:1px solid %3; border-radius:6px;")
                                .arg(c.raised.name(), c.text.name(), c.line.name()));
    setMarkers(m_markers);
    m_plot->replot(QCustomPlot::rpQueuedReplot); // a switch of the theme must not wait for new data
}

void Plot::replotSoon()
{
    if (m_timer == 0 && isVisible())
        m_timer = startTimer(replotMs);
}

void Plot::showEvent(QShowEvent *event)
{
    QWidget::showEvent(event);
    replotSoon();
}

void Plot::timerEvent(QTimerEvent *event)
{
    if (event->timerId() != m_timer)
        return;
    killTimer(m_timer);
    m_timer = 0;
    if (m_follows) {
        m_plot->xAxis->setRange(m_from, m_to);
        double most = 0;
        for (int i = 0; i < m_plot->graphCount(); ++i) {
            bool found = false;
            const QCPRange range = m_plot->graph(i)->getValueRange(found, QCP::sdBoth, m_plot->xAxis->range());
            most = found ? std::max(most, range.upper) : most;
        }
        m_plot->yAxis->setRange(0, most > 0 ? most * 1.12 : 1);
    }
    m_plot->replot(QCustomPlot::rpQueuedReplot);
}

bool Plot::eventFilter(QObject *watched, QEvent *event)
{
    if (watched == m_plot && event->type() == QEvent::Leave)
        m_values->hide();
    return QWidget::eventFilter(watched, event);
}

QString Plot::valuesAt(double x) const
{
    QStringList lines;
    for (int i = 0; i < m_plot->graphCount(); ++i) {
        const auto data = m_plot->graph(i)->data();
        if (data->isEmpty())
            continue;
        auto it = data->findBegin(x, false);
        if (it == data->constEnd() || (it != data->constBegin() && x - (it - 1)->key < it->key - x))
            --it; // the nearest point
        if (std::isnan(it->value))
            continue;
        lines << QStringLiteral("%1 %2 %3").arg(m_lines[i].name, format::number(it->value), m_lines[i].unit).trimmed();
    }
    return lines.join(u'\n');
}

void Plot::showValues(const QPointF &at)
{
    const QRect area = m_plot->axisRect()->rect();
    const double x = m_plot->xAxis->pixelToCoord(at.x());
    const QString text = area.contains(at.toPoint()) ? valuesAt(x) : QString();
    m_values->setVisible(!text.isEmpty());
    if (text.isEmpty())
        return;
    m_values->setText(text);
    m_values->adjustSize();
    const bool left = at.x() + 14 + m_values->width() > m_plot->width();
    m_values->move(
        int(left ? at.x() - 14 - m_values->width() : at.x() + 14),
        std::clamp(int(at.y()) - m_values->height() / 2, 0, std::max(0, m_plot->height() - m_values->height())));
}

QString Plot::csv() const
{
    QString out;
    for (int i = 0; i < m_plot->graphCount(); ++i) {
        for (auto it = m_plot->graph(i)->data()->constBegin(); it != m_plot->graph(i)->data()->constEnd(); ++it)
            out += QStringLiteral("%1,%2,%3\n").arg(m_lines[i].name).arg(it->key, 0, 'g', 9).arg(it->value, 0, 'g', 9);
    }
    return QStringLiteral("series,%1,%2\n").arg(m_plot->xAxis->label(), m_plot->yAxis->label()) + out;
}

bool Plot::exportTo(const QString &path, QString *why) const
{
    bool done = false;
    if (path.endsWith(QLatin1String(".pdf"), Qt::CaseInsensitive)) {
        done = m_plot->savePdf(path);
    } else if (path.endsWith(QLatin1String(".csv"), Qt::CaseInsensitive)) {
        QSaveFile file(path);
        done = file.open(QIODevice::WriteOnly) && file.write(csv().toUtf8()) >= 0 && file.commit();
    } else if (path.endsWith(QLatin1String(".png"), Qt::CaseInsensitive)) {
        done = m_plot->savePng(path, 0, 0, 2);
    } else {
        *why = tr("“%1” ends in none of .png, .pdf and .csv").arg(path);
        return false;
    }
    if (!done)
        *why = tr("“%1” cannot be written; choose another folder").arg(path);
    return done;
}

} // namespace ui
