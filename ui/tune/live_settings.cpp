// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/tune/live_settings.h"

#include "ui/engine_client.h"
#include "ui/parameters.h"
#include "ui/widgets/knob_slider.h"

#include <algorithm>

namespace ui {

std::vector<const engine::ParameterSpec *> liveKnobs()
{
    std::vector<const engine::ParameterSpec *> knobs;
    for (const engine::ParameterSpec &spec : engine::parameterSpecs()) {
        if (spec.applies != engine::Applies::Reload && parameterValue(engine::EngineConfig(), spec.key))
            knobs.push_back(&spec);
    }
    return knobs;
}

std::vector<const engine::ParameterSpec *> liveDifferences(const engine::EngineConfig &a, const engine::EngineConfig &b)
{
    std::vector<const engine::ParameterSpec *> different = liveKnobs();
    std::erase_if(different, [&](const engine::ParameterSpec *spec) {
        return parameterValue(a, spec->key) == parameterValue(b, spec->key);
    });
    return different;
}

QString liveChangeText(const engine::EngineConfig &from, const engine::EngineConfig &to)
{
    QStringList changes;
    for (const engine::ParameterSpec *spec : liveDifferences(from, to)) {
        const auto textIn = [spec](const engine::EngineConfig &config) {
            return KnobSlider::textOf(*spec, parameterValue(config, spec->key).value_or(0));
        };
        changes << QStringLiteral("%1 %2 → %3")
                       .arg(QString::fromUtf8(spec->label.data(), qsizetype(spec->label.size())), textIn(from),
                            textIn(to));
    }
    return changes.join(QStringLiteral(", "));
}

void requestLive(EngineClient &client, const engine::EngineConfig &wanted)
{
    const engine::EngineConfig asked = client.config();
    if (wanted.limits != asked.limits)
        client.setLimits(wanted.limits);
    if (wanted.kv != asked.kv)
        client.setKvPool(wanted.kv);
    if (wanted.threads != asked.threads)
        client.setThreads(wanted.threads);
    const engine::AdmissionRules rules = wanted;
    if (rules != static_cast<const engine::AdmissionRules &>(asked))
        client.setRules(rules);
}

bool isAnyPending(const EngineClient &client)
{
    const EngineSetting all[] = {EngineSetting::Limits, EngineSetting::KvPool, EngineSetting::Threads,
                                 EngineSetting::Rules};
    return std::any_of(std::begin(all), std::end(all), [&](EngineSetting one) { return client.isPending(one); });
}

} // namespace ui
