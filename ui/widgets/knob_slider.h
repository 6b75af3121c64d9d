// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/parameters.h"
#include "ui/theme.h"

#include <QSlider>
#include <QWidget>

class QButtonGroup;
class QLabel;
class QLineEdit;

namespace ui {

/// The values of one knob on a line: linear when there are few, by powers of two or logarithmic when there are many.
class KnobScale {
public:
    explicit KnobScale(const engine::ParameterSpec &spec);
    /// 0..1 for a value within the range.
    [[nodiscard]] double position(double value) const;
    /// The allowed value nearest to a position.
    [[nodiscard]] double value(double position) const;
    /// The nearest allowed value; NaN becomes the default.
    [[nodiscard]] double allowed(double value) const;
    /// `steps` allowed values further.
    [[nodiscard]] double stepped(double value, int steps) const;

private:
    [[nodiscard]] bool logarithmic() const;
    engine::ParameterSpec m_spec;
};

/// The line of a KnobSlider: filled up to the value, a round handle, a dashed ring where the requested value differs.
class KnobTrack : public QSlider {
    Q_OBJECT
public:
    KnobTrack(Theme &theme, const engine::ParameterSpec &spec, QWidget *parent = nullptr);
    void setKnobValue(double value);
    [[nodiscard]] double knobValue() const { return m_value; }
    /// Place of the dashed ring; NaN hides it.
    void setRing(double value);
    [[nodiscard]] double ring() const { return m_ring; }
    [[nodiscard]] const KnobScale &scale() const { return m_scale; }
    [[nodiscard]] QSize sizeHint() const override { return {200, 20}; }
    [[nodiscard]] QSize minimumSizeHint() const override { return {80, 20}; }

signals:
    void moved(double value);
    void resetRequested();

protected:
    void paintEvent(QPaintEvent *event) override;
    void mousePressEvent(QMouseEvent *event) override;
    void mouseMoveEvent(QMouseEvent *event) override;
    void mouseDoubleClickEvent(QMouseEvent *event) override;
    void wheelEvent(QWheelEvent *event) override;
    void keyPressEvent(QKeyEvent *event) override;

private:
    void moveTo(double value);
    [[nodiscard]] double xOf(double value) const;

    Theme &m_theme;
    KnobScale m_scale;
    double m_value = 0;
    double m_ring;
};

/// One knob of the parameter table: name and typable value above, line, and what it does or did below.
///
/// Shows the effective value on the handle and the requested one as a dashed ring while they differ. Arrows step,
/// Page Up and Down step by ten, Home and End go to the ends, a double click resets to the default. A knob with named
/// values has a small button for each in place of the line; there the pressed one is what was asked for.
class KnobSlider : public QWidget {
    Q_OBJECT
public:
    KnobSlider(Theme &theme, const engine::ParameterSpec &spec, QWidget *parent = nullptr);

    [[nodiscard]] const engine::ParameterSpec &spec() const { return m_spec; }
    /// The requested value.
    [[nodiscard]] double value() const { return m_requested; }
    /// Sets the requested value without a signal.
    void setValue(double value);
    /// What is in force; NaN when nothing is (no model), then the requested value is shown alone.
    void setEffective(double value);
    /// The line below; empty falls back to when a change applies. `tone` is "quiet", "warn" or "bad".
    void setConsequence(const QString &text, const QString &tone = QStringLiteral("quiet"));
    [[nodiscard]] QString consequence() const;
    /// A change waits for an idle moment.
    void setPending(bool pending);
    [[nodiscard]] bool isPending() const { return m_pending; }
    [[nodiscard]] QString valueText() const;
    [[nodiscard]] KnobTrack *track() const { return m_track; }
    /// The buttons of named values, or null.
    [[nodiscard]] QButtonGroup *choices() const { return m_choices; }
    /// Whether an effective value is shown that differs from the requested one.
    [[nodiscard]] bool differs() const;
    /// Gives the focus to what turns the knob.
    void takeFocus(Qt::FocusReason reason);
    [[nodiscard]] QLineEdit *edit() const { return m_edit; }

    /// "auto", "off" or a number with its unit.
    [[nodiscard]] static QString textOf(const engine::ParameterSpec &spec, double value);
    /// The number in a typed text, with K, M, G and thousands commas; NaN when there is none.
    [[nodiscard]] static double parse(const engine::ParameterSpec &spec, const QString &text);

signals:
    /// The user asked for another value; during a drag for each.
    void valueChanged(double value);

private:
    QWidget *createChoices();
    void request(double value);
    void commitText();
    void refresh();
    void refreshFonts();
    [[nodiscard]] QString fallbackConsequence() const;

    Theme &m_theme;
    engine::ParameterSpec m_spec;
    QLabel *m_name = nullptr;
    QLabel *m_mark = nullptr;
    QLineEdit *m_edit = nullptr;
    KnobTrack *m_track = nullptr;
    QButtonGroup *m_choices = nullptr;
    QLabel *m_note = nullptr;
    double m_requested = 0;
    double m_effective;
    QString m_consequence;
    QString m_tone;
    bool m_pending = false;
};

} // namespace ui
