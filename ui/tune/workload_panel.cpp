// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/tune/workload_panel.h"

#include "ui/settings.h"
#include "ui/widgets/knob_slider.h"

#include <QBoxLayout>

namespace ui {

WorkloadPanel::WorkloadPanel(Theme &theme, Settings &settings, QWidget *parent)
    : QWidget(parent)
    , m_settings(settings)
    , m_workload(storedWorkload(settings))
{
    auto *column = new QVBoxLayout(this);
    column->setContentsMargins(4, 4, 4, 4);
    column->setSpacing(14);
    for (const engine::ParameterSpec &spec : workloadSpecs()) {
        auto *knob = new KnobSlider(theme, spec, this);
        connect(knob, &KnobSlider::valueChanged, this, [this, knob](double value) {
            setWorkloadValue(m_workload, knob->spec().key, int(value));
            storeWorkload(m_settings, m_workload);
            refresh();
        });
        column->addWidget(knob);
        m_knobs.append(knob);
    }
    refresh();
}

KnobSlider *WorkloadPanel::knob(std::string_view key) const
{
    for (KnobSlider *knob : m_knobs) {
        if (knob->spec().key == key)
            return knob;
    }
    return nullptr;
}

void WorkloadPanel::setWorkload(const Workload &workload)
{
    m_workload = workload;
    storeWorkload(m_settings, m_workload);
    refresh();
}

void WorkloadPanel::refresh()
{
    for (KnobSlider *knob : m_knobs) {
        const std::string_view help = knob->spec().help;
        knob->setValue(workloadValue(m_workload, knob->spec().key));
        knob->setConsequence(QString::fromUtf8(help.data(), qsizetype(help.size())));
    }
}

} // namespace ui
