// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/widgets/knob_slider.h"
#include "ui/widgets/paint.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QWheelEvent>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ui {

namespace {

constexpr double noRing = std::numeric_limits<double>::quiet_NaN();
constexpr double fewValues = 400; // as many as a slider has pixels to point at
constexpr int positions = 10000;
constexpr double handleRadius = 7;

} // namespace

KnobScale::KnobScale(const engine::ParameterSpec &spec)
    : m_spec(spec)
{
    if (m_spec.step <= 0)
        m_spec.step = 1;
}

bool KnobScale::logarithmic() const
{
    return (m_spec.maximum - m_spec.minimum) / m_spec.step > fewValues;
}

double KnobScale::position(double value) const
{
    const double range = m_spec.maximum - m_spec.minimum;
    if (range <= 0)
        return 0;
    value = std::clamp(value, m_spec.minimum, m_spec.maximum);
    if (m_spec.powersOfTwo && m_spec.minimum > 0)
        return std::log2(value / m_spec.minimum) / std::log2(m_spec.maximum / m_spec.minimum);
    if (logarithmic())
        return std::log1p((value - m_spec.minimum) / m_spec.step) / std::log1p(range / m_spec.step);
    return (value - m_spec.minimum) / range;
}

double KnobScale::value(double position) const
{
    position = std::clamp(position, 0.0, 1.0);
    const double range = m_spec.maximum - m_spec.minimum;
    if (m_spec.powersOfTwo && m_spec.minimum > 0)
        return allowed(m_spec.minimum * std::exp2(position * std::log2(m_spec.maximum / m_spec.minimum)));
    if (logarithmic())
        return allowed(m_spec.minimum + m_spec.step * std::expm1(position * std::log1p(range / m_spec.step)));
    return allowed(m_spec.minimum + position * range);
}

double KnobScale::allowed(double value) const
{
    if (std::isnan(value))
        return m_spec.defaultValue;
    value = std::clamp(value, m_spec.minimum, m_spec.maximum);
    if (m_spec.powersOfTwo && m_spec.minimum > 0)
        return std::min(m_spec.maximum, m_spec.minimum * std::exp2(std::round(std::log2(value / m_spec.minimum))));
    const double steps = std::round((value - m_spec.minimum) / m_spec.step);
    // Through the decimal step, so that 0.1 + 0.2 reads 0.3.
    const double places = 1e9;
    return std::clamp(std::round((m_spec.minimum + steps * m_spec.step) * places) / places, m_spec.minimum,
                      m_spec.maximum);
}

// On a logarithmic line one step is the least, and grows with the value: else the far end is out of reach.
double KnobScale::stepped(double value, int steps) const
{
    if (m_spec.powersOfTwo)
        return allowed(allowed(value) * std::exp2(steps));
    double step = m_spec.step;
    if (logarithmic()) {
        const double size = std::abs(value - m_spec.minimum) / fewValues;
        while (step * 2 <= size * 8)
            step *= 2;
    }
    return allowed(value + steps * step);
}

KnobTrack::KnobTrack(Theme &theme, const engine::ParameterSpec &spec, QWidget *parent)
    : QSlider(Qt::Horizontal, parent)
    , m_theme(theme)
    , m_scale(spec)
    , m_ring(noRing)
{
    setRange(0, positions);
    setFocusPolicy(Qt::StrongFocus);
    setCursor(Qt::PointingHandCursor);
    setKnobValue(spec.defaultValue);
    connect(&m_theme, &Theme::changed, this, qOverload<>(&QWidget::update));
    // Assistive programs move the slider by its integer position.
    connect(this, &QSlider::sliderMoved, this,
            [this](int position) { moveTo(m_scale.value(double(position) / positions)); });
}

void KnobTrack::setKnobValue(double value)
{
    m_value = value;
    setSliderPosition(int(std::lround(m_scale.position(value) * positions)));
    update();
}

void KnobTrack::setRing(double value)
{
    m_ring = value;
    update();
}

double KnobTrack::xOf(double value) const
{
    return handleRadius + 1 + m_scale.position(value) * (width() - 2 * (handleRadius + 1));
}

void KnobTrack::paintEvent(QPaintEvent *)
{
    const Tokens &c = m_theme.tokens();
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    const double middle = height() / 2.0;
    paint::bar(painter, QRectF(0, middle - 2, width(), 4), c.line, 2);
    const double x = xOf(m_value);
    const QColor active = isEnabled() ? c.accent : c.faint;
    paint::bar(painter, QRectF(0, middle - 2, x, 4), active, 2);
    if (!std::isnan(m_ring)) {
        QPen dashed(c.warn, 1.5);
        dashed.setDashPattern({2, 2});
        painter.setPen(dashed);
        painter.setBrush(Qt::NoBrush);
        painter.drawEllipse(QPointF(xOf(m_ring), middle), 6, 6);
    }
    if (hasFocus())
        paint::dot(painter, QPointF(x, middle), QColor(active.red(), active.green(), active.blue(), 70),
                   handleRadius + 3);
    painter.setPen(QPen(active, 2));
    painter.setBrush(c.panel);
    painter.drawEllipse(QPointF(x, middle), handleRadius, handleRadius);
}

void KnobTrack::moveTo(double value)
{
    if (value != m_value || !std::isnan(m_ring))
        emit moved(value);
}

void KnobTrack::mousePressEvent(QMouseEvent *event)
{
    if (event->button() == Qt::LeftButton)
        mouseMoveEvent(event);
}

void KnobTrack::mouseMoveEvent(QMouseEvent *event)
{
    if (event->buttons() & Qt::LeftButton) {
        const double span = width() - 2 * (handleRadius + 1);
        moveTo(m_scale.value((event->position().x() - handleRadius - 1) / std::max(1.0, span)));
    }
}

void KnobTrack::mouseDoubleClickEvent(QMouseEvent *)
{
    emit resetRequested();
}

// The wheel scrolls the panel; turning a knob by accident while scrolling would be worse than not turning it.
void KnobTrack::wheelEvent(QWheelEvent *event)
{
    event->ignore();
}

void KnobTrack::keyPressEvent(QKeyEvent *event)
{
    const double from = std::isnan(m_ring) ? m_value : m_ring;
    switch (event->key()) {
    case Qt::Key_Left:
    case Qt::Key_Down:
        moveTo(m_scale.stepped(from, -1));
        break;
    case Qt::Key_Right:
    case Qt::Key_Up:
        moveTo(m_scale.stepped(from, 1));
        break;
    case Qt::Key_PageDown:
        moveTo(m_scale.stepped(from, -10));
        break;
    case Qt::Key_PageUp:
        moveTo(m_scale.stepped(from, 10));
        break;
    case Qt::Key_Home:
        moveTo(m_scale.value(0));
        break;
    case Qt::Key_End:
        moveTo(m_scale.value(1));
        break;
    case Qt::Key_Delete:
    case Qt::Key_Backspace:
        emit resetRequested();
        break;
    default:
        QWidget::keyPressEvent(event);
    }
}

} // namespace ui
