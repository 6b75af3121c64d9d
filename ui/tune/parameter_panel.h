// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/config.h"
#include "ui/theme.h"

#include <QList>
#include <QWidget>

#include <map>
#include <string_view>

namespace engine {
struct ParametersApplied;
}

namespace ui {

class EngineClient;
class KnobSlider;
class Settings;

/// A slider for every knob of the parameter table that this window can set, in one group.
///
/// Sampling goes to new and running requests at once. Limits, pool and threads show what was asked for and what is in
/// force, with the engine's reason, and are marked while they wait for an idle moment. Everything is kept.
class ParameterPanel : public QWidget {
    Q_OBJECT
public:
    /// `group` is a ParameterSpec::group.
    ParameterPanel(Theme &theme, EngineClient &client, Settings &settings, std::string_view group,
                   QWidget *parent = nullptr);

    [[nodiscard]] const QList<KnobSlider *> &knobs() const { return m_knobs; }
    [[nodiscard]] KnobSlider *knob(std::string_view key) const;
    /// Knobs whose effective value differs from the requested one.
    [[nodiscard]] int deviations() const;

signals:
    void refreshed();

private:
    void change(const KnobSlider &knob, double value);
    void changeEngine(std::string_view key, double value);
    void refresh();
    void refreshEngineKnob(KnobSlider &knob);
    void takeApplied(const engine::ParametersApplied &applied);
    void refreshSamplingKnob(KnobSlider &knob, double asked);

    EngineClient &m_client;
    Settings &m_settings;
    QList<KnobSlider *> m_knobs;
    engine::EngineConfig m_effective;                ///< at the last answer, to say what a change was
    std::map<std::string_view, QString> m_confirmed; ///< by key: what its last change was, and since when
};

} // namespace ui
