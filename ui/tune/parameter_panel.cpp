// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/tune/parameter_panel.h"

#include "engine/api/parameters.h"
#include "ui/engine_client.h"
#include "ui/format.h"
#include "ui/parameters.h"
#include "ui/settings.h"
#include "ui/widgets/knob_slider.h"

#include <QBoxLayout>

#include <cmath>
#include <limits>

namespace ui {

namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();

bool isReload(std::string_view key)
{
    const engine::ParameterSpec *spec = engine::findParameter(key);
    return spec && spec->applies == engine::Applies::Reload;
}

EngineSetting settingOf(std::string_view key)
{
    if (key == "max-num-seqs" || key == "max-num-batched-tokens")
        return EngineSetting::Limits;
    if (key == "scheduling-policy" || key == "admission-reserve" || key == "max-num-queued-reqs"
        || key == "max-num-queued-tokens")
        return EngineSetting::Rules;
    return key == "threads" ? EngineSetting::Threads : EngineSetting::KvPool;
}

} // namespace

ParameterPanel::ParameterPanel(Theme &theme, EngineClient &client, Settings &settings, std::string_view group,
                               QWidget *parent)
    : QWidget(parent)
    , m_client(client)
    , m_settings(settings)
{
    auto *column = new QVBoxLayout(this);
    column->setContentsMargins(4, 4, 4, 4);
    column->setSpacing(14);
    const engine::SamplingParams sampling;
    const engine::EngineConfig config;
    for (const engine::ParameterSpec &spec : engine::parameterSpecs()) {
        // A row that this window has no field for cannot be set here.
        if (spec.group != group || !(parameterValue(sampling, spec.key) || parameterValue(config, spec.key)))
            continue;
        auto *knob = new KnobSlider(theme, spec, this);
        connect(knob, &KnobSlider::valueChanged, this, [this, knob](double value) { change(*knob, value); });
        column->addWidget(knob);
        m_knobs.append(knob);
    }
    column->addStretch();
    connect(&client, &EngineClient::samplingChanged, this, &ParameterPanel::refresh);
    connect(&client, &EngineClient::parametersRequested, this, &ParameterPanel::refresh);
    connect(&client, &EngineClient::parametersApplied, this, &ParameterPanel::takeApplied);
    connect(&client, &EngineClient::modelLoaded, this, [this](const engine::ModelInfo &info) {
        m_effective = info.effective;
        m_confirmed.clear();
        refresh();
    });
    connect(&client, &EngineClient::modelUnloaded, this, &ParameterPanel::refresh);
    refresh();
}

KnobSlider *ParameterPanel::knob(std::string_view key) const
{
    for (KnobSlider *knob : m_knobs) {
        if (knob->spec().key == key)
            return knob;
    }
    return nullptr;
}

int ParameterPanel::deviations() const
{
    int count = 0;
    for (const KnobSlider *knob : m_knobs) {
        const auto asked = parameterValue(m_client.requestedSampling(), knob->spec().key);
        count += asked ? !engine::checkParameter(knob->spec(), *asked).empty() : knob->differs();
    }
    return count;
}

void ParameterPanel::change(const KnobSlider &knob, double value)
{
    engine::SamplingParams sampling = m_client.requestedSampling();
    if (setParameterValue(sampling, knob.spec().key, value)) {
        m_client.setSampling(sampling);
        m_settings.setSampling(sampling);
        return;
    }
    changeEngine(knob.spec().key, value);
    m_settings.setEngineConfig(m_client.config());
}

void ParameterPanel::changeEngine(std::string_view key, double value)
{
    engine::EngineConfig config = m_client.config();
    setParameterValue(config, key, value);
    if (isReload(key)) {
        m_client.setConfig(config);
        refresh();
        return;
    }
    switch (settingOf(key)) {
    case EngineSetting::Limits:
        m_client.setLimits(config.limits);
        break;
    case EngineSetting::KvPool:
        m_client.setKvPool(config.kv);
        break;
    case EngineSetting::Threads:
        m_client.setThreads(config.threads);
        break;
    case EngineSetting::Rules:
        m_client.setRules(config);
        break;
    }
}

void ParameterPanel::takeApplied(const engine::ParametersApplied &applied)
{
    for (const KnobSlider *knob : m_knobs) {
        const std::string_view key = knob->spec().key;
        const auto before = parameterValue(m_effective, key), after = parameterValue(applied.effective, key);
        if (before && after && *before != *after)
            m_confirmed[key] = tr("was %1, in force since step %2")
                                   .arg(KnobSlider::textOf(knob->spec(), *before), format::count(qint64(applied.step)));
    }
    m_effective = applied.effective;
    refresh();
}

void ParameterPanel::refresh()
{
    for (KnobSlider *knob : m_knobs) {
        if (const auto asked = parameterValue(m_client.requestedSampling(), knob->spec().key))
            refreshSamplingKnob(*knob, *asked);
        else
            refreshEngineKnob(*knob);
    }
    emit refreshed();
}

/// A value out of range, as a settings file can hold one, is shown beside the one that is used instead.
void ParameterPanel::refreshSamplingKnob(KnobSlider &knob, double asked)
{
    const double used = parameterValue(m_client.sampling(), knob.spec().key).value_or(asked);
    const std::string fault = engine::checkParameter(knob.spec(), asked);
    const bool changed = used != knob.value();
    knob.setValue(used);
    if (!fault.empty())
        knob.setConsequence(
            tr("in force %1: %2").arg(KnobSlider::textOf(knob.spec(), used), QString::fromStdString(fault)),
            QStringLiteral("warn"));
    else if (changed)
        knob.setConsequence({});
}

void ParameterPanel::refreshEngineKnob(KnobSlider &knob)
{
    const std::string_view key = knob.spec().key;
    knob.setValue(parameterValue(m_client.config(), key).value_or(knob.spec().defaultValue));
    const auto &model = m_client.model();
    knob.setEffective(model ? parameterValue(model->effective, key).value_or(none) : none);
    if (isReload(key)) {
        knob.setConsequence({});
        return;
    }
    const EngineSetting setting = settingOf(key);
    const bool pending = m_client.isPending(setting);
    const bool slow = setting == EngineSetting::KvPool || setting == EngineSetting::Threads; // these may take a while
    knob.setPending(pending && slow);
    const QString note = m_client.note(setting);
    if (pending)
        knob.setConsequence(tr("applies at the next step"));
    else if (!note.isEmpty())
        knob.setConsequence(note, QStringLiteral("warn"));
    else if (const auto confirmed = m_confirmed.find(key); confirmed != m_confirmed.end())
        knob.setConsequence(confirmed->second);
    else
        knob.setConsequence({});
}

} // namespace ui
