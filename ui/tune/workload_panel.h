// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/theme.h"
#include "ui/tune/workload.h"

#include <QList>
#include <QWidget>

namespace ui {

class KnobSlider;

/// A slider for every knob of the workload; what is set is kept.
class WorkloadPanel : public QWidget {
    Q_OBJECT
public:
    WorkloadPanel(Theme &theme, Settings &settings, QWidget *parent = nullptr);

    [[nodiscard]] const Workload &workload() const { return m_workload; }
    void setWorkload(const Workload &workload);
    [[nodiscard]] KnobSlider *knob(std::string_view key) const;

private:
    void refresh();

    Settings &m_settings;
    Workload m_workload;
    QList<KnobSlider *> m_knobs;
};

} // namespace ui
