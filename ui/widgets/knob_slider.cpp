// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/widgets/knob_slider.h"

#include "ui/format.h"
#include "ui/widgets/pill.h"

#include <QBoxLayout>
#include <QButtonGroup>
#include <QLabel>
#include <QLineEdit>
#include <QStyle>

#include <cmath>
#include <limits>

namespace ui {

namespace {

constexpr double noValue = std::numeric_limits<double>::quiet_NaN();

bool isBytes(const engine::ParameterSpec &spec)
{
    return spec.unit == "bytes" || spec.unit == "B";
}

QString fromView(std::string_view text)
{
    return QString::fromUtf8(text.data(), qsizetype(text.size()));
}

// What the zero of a knob means where it is no number.
QString zeroName(const engine::ParameterSpec &spec)
{
    if (spec.key == "threads" || spec.key == "kv-cache-memory-bytes" || spec.key == "max-model-len"
        || spec.key == "num-gpu-blocks-override")
        return KnobSlider::tr("auto");
    if (spec.key == "max-tokens" || spec.key == "max-num-queued-reqs" || spec.key == "max-num-queued-tokens")
        return KnobSlider::tr("no limit");
    if (spec.key == "top-k" || spec.key == "min-p")
        return KnobSlider::tr("off");
    return {};
}

void setTone(QLabel *label, const QString &tone)
{
    if (label->property("tone") == tone)
        return;
    label->setProperty("tone", tone);
    label->style()->unpolish(label);
    label->style()->polish(label);
}

} // namespace

KnobSlider::KnobSlider(Theme &theme, const engine::ParameterSpec &spec, QWidget *parent)
    : QWidget(parent)
    , m_theme(theme)
    , m_spec(spec)
    , m_name(new QLabel(fromView(spec.label), this))
    , m_mark(new QLabel(tr("waits for idle"), this))
    , m_edit(new QLineEdit(this))
    , m_track(new KnobTrack(theme, spec, this))
    , m_note(new QLabel(this))
    , m_requested(spec.defaultValue)
    , m_effective(noValue)
    , m_tone(QStringLiteral("quiet"))
{
    const QString label = fromView(spec.label), help = fromView(spec.help);
    m_name->setProperty("tone", QStringLiteral("muted"));
    m_name->setBuddy(m_edit);
    m_mark->setProperty("tone", QStringLiteral("warn"));
    m_mark->hide();
    m_edit->setProperty("flat", true);
    m_edit->setAlignment(Qt::AlignRight);
    m_edit->setFixedWidth(176);
    m_edit->setAccessibleName(tr("%1, exact value").arg(label));
    m_track->setAccessibleName(label);
    m_note->setProperty("tone", m_tone);
    m_note->setWordWrap(true);
    for (QWidget *widget : {static_cast<QWidget *>(this), static_cast<QWidget *>(m_track)})
        widget->setToolTip(help);

    auto *top = new QHBoxLayout;
    top->setSpacing(8);
    top->addWidget(m_name);
    top->addWidget(m_mark);
    top->addStretch();
    top->addWidget(m_edit);
    auto *column = new QVBoxLayout(this);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(1);
    column->addLayout(top);
    column->addWidget(m_track);
    if (!spec.choices.empty()) {
        m_edit->hide();
        m_track->hide();
        column->addWidget(createChoices());
    }
    column->addWidget(m_note);

    connect(m_track, &KnobTrack::moved, this, &KnobSlider::request);
    connect(m_track, &KnobTrack::resetRequested, this, [this] { request(m_spec.defaultValue); });
    connect(m_edit, &QLineEdit::editingFinished, this, &KnobSlider::commitText);
    connect(&m_theme, &Theme::changed, this, &KnobSlider::refreshFonts);
    refreshFonts();
    refresh();
}

QWidget *KnobSlider::createChoices()
{
    auto *buttons = new QWidget(this);
    auto *row = new QHBoxLayout(buttons);
    row->setContentsMargins(0, 0, 0, 0);
    row->setSpacing(6);
    m_choices = new QButtonGroup(buttons);
    for (std::size_t i = 0; i < m_spec.choices.size(); ++i) {
        auto *pill = new Pill(m_theme, fromView(m_spec.choices[i]), buttons);
        pill->setCheckable(true);
        pill->setAccessibleName(tr("%1: %2").arg(fromView(m_spec.label), pill->text()));
        pill->setToolTip(toolTip());
        m_choices->addButton(pill, int(i));
        row->addWidget(pill);
    }
    row->addStretch();
    connect(m_choices, &QButtonGroup::idClicked, this, [this](int value) { request(value); });
    return buttons;
}

bool KnobSlider::differs() const
{
    return m_choices ? !std::isnan(m_effective) && m_effective != m_requested : !std::isnan(m_track->ring());
}

void KnobSlider::takeFocus(Qt::FocusReason reason)
{
    QWidget *turned = m_choices ? static_cast<QWidget *>(m_choices->checkedButton()) : m_track;
    (turned ? turned : this)->setFocus(reason);
}

void KnobSlider::refreshFonts()
{
    m_name->setFont(m_theme.ui(12.5));
    m_mark->setFont(m_theme.ui(11, QFont::Medium));
    m_edit->setFont(m_theme.mono(12.5, QFont::DemiBold));
    m_note->setFont(m_theme.ui(11));
}

QString KnobSlider::textOf(const engine::ParameterSpec &spec, double value)
{
    if (!spec.choices.empty())
        return fromView(spec.choices[std::min(spec.choices.size() - 1, std::size_t(std::max(0.0, value)))]);
    if (value == 0) {
        if (const QString name = zeroName(spec); !name.isEmpty())
            return name;
    }
    if (isBytes(spec))
        return format::bytes(std::size_t(std::max(0.0, value)));
    const QString number = format::knob(value, spec.step);
    return spec.unit.empty() ? number : number + QLatin1Char(' ') + fromView(spec.unit);
}

double KnobSlider::parse(const engine::ParameterSpec &spec, const QString &text)
{
    QString typed = text.trimmed();
    for (std::size_t i = 0; i < spec.choices.size(); ++i) {
        if (typed.compare(fromView(spec.choices[i]), Qt::CaseInsensitive) == 0)
            return double(i);
    }
    if (const QString zero = zeroName(spec); !zero.isEmpty() && typed.compare(zero, Qt::CaseInsensitive) == 0)
        return 0;
    qsizetype end = 0;
    while (end < typed.size() && (typed[end].isDigit() || QStringLiteral("+-.,eE").contains(typed[end])))
        ++end;
    if (end > 0 && typed[end - 1].toLower() == u'e') // the e of a unit, not of an exponent
        --end;
    bool ok = false;
    const double number = typed.left(end).remove(u',').toDouble(&ok);
    if (!ok || !std::isfinite(number))
        return noValue;
    const QString unit = typed.mid(end).trimmed().toLower();
    if (unit.isEmpty() || unit == fromView(spec.unit).toLower())
        return number;
    const double factors[] = {1024.0, 1048576.0, 1073741824.0, 1099511627776.0};
    const qsizetype prefix = QStringLiteral("kmgt").indexOf(unit[0]);
    const QString rest = unit.mid(1);
    if (prefix >= 0 && (rest.isEmpty() || rest == QLatin1String("ib") || rest == QLatin1String("b")) && isBytes(spec))
        return number * factors[prefix];
    return noValue;
}

void KnobSlider::setValue(double value)
{
    m_requested = m_track->scale().allowed(value);
    refresh();
}

void KnobSlider::setEffective(double value)
{
    m_effective = value;
    refresh();
}

void KnobSlider::setConsequence(const QString &text, const QString &tone)
{
    m_consequence = text;
    m_tone = tone;
    refresh();
}

QString KnobSlider::consequence() const
{
    return m_note->text();
}

void KnobSlider::setPending(bool pending)
{
    m_pending = pending;
    refresh();
}

QString KnobSlider::valueText() const
{
    return m_edit->text();
}

QString KnobSlider::fallbackConsequence() const
{
    switch (m_spec.applies) {
    case engine::Applies::NextStep:
        return tr("applies at the next step");
    case engine::Applies::NextRequest:
        return tr("applies to the next message");
    case engine::Applies::Reload:
        return tr("applies at the next load");
    }
    return {};
}

// The handle shows what is in force, the ring what was asked for; zero means "the engine chooses", so its choice is no
// deviation.
void KnobSlider::refresh()
{
    const bool known = !std::isnan(m_effective);
    const bool automatic = m_requested == 0 && !zeroName(m_spec).isEmpty();
    const double tolerance = isBytes(m_spec) ? std::max(1.0, m_requested * 0.02) : m_spec.step / 2;
    const bool differs = known && !automatic && std::abs(m_effective - m_requested) > tolerance;
    m_track->setKnobValue(differs || (known && automatic) ? m_effective : m_requested);
    m_track->setRing(differs ? m_requested : noValue);
    if (!m_edit->hasFocus() || !m_edit->isModified()) {
        QString text = textOf(m_spec, m_requested);
        if (known && automatic && m_effective > 0)
            text = tr("auto · %1").arg(textOf(m_spec, m_effective));
        m_edit->setText(text);
    }
    m_track->setAccessibleDescription(textOf(m_spec, differs ? m_effective : m_requested));
    m_mark->setVisible(m_pending);
    if (m_choices) {
        if (QAbstractButton *button = m_choices->button(int(m_requested)))
            button->setChecked(true);
    }
    QString note = m_consequence.isEmpty() ? fallbackConsequence() : m_consequence;
    if (differs)
        note = tr("in force %1, asked for %2: %3").arg(textOf(m_spec, m_effective), textOf(m_spec, m_requested), note);
    m_note->setText(note);
    setTone(m_note, m_tone);
}

void KnobSlider::request(double value)
{
    value = m_track->scale().allowed(value);
    if (value == m_requested)
        return;
    m_requested = value;
    m_consequence.clear();
    m_tone = QStringLiteral("quiet");
    refresh();
    emit valueChanged(value);
}

void KnobSlider::commitText()
{
    if (!m_edit->isModified())
        return;
    const double typed = parse(m_spec, m_edit->text());
    const std::string fault = std::isnan(typed) && !m_edit->text().trimmed().isEmpty()
        ? tr("“%1” is no number").arg(m_edit->text().trimmed()).toStdString()
        : engine::checkParameter(m_spec, typed);
    m_edit->setModified(false);
    if (!fault.empty()) {
        setConsequence(QString::fromStdString(fault), QStringLiteral("bad"));
        return;
    }
    request(typed);
    refresh();
}

} // namespace ui
