// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/tune/workload.h"

#include "engine/api/events.h"
#include "ui/format.h"
#include "ui/settings.h"
#include "ui/translate.h"

#include <array>

namespace ui {

namespace {

using engine::Applies;
using engine::ParameterSpec;

constexpr std::array specs{
    ParameterSpec{"requests", "Requests", "", 1, 1000, 1, 16, Applies::NextRequest, "workload",
                  "Requests that one round sends."},
    ParameterSpec{"clients", "At a time", "", 1, 256, 1, 8, Applies::NextRequest, "workload",
                  "Requests that are open at once; the next one goes out when one has ended."},
    ParameterSpec{"prompt", "Prompt", "tokens", 1, 32768, 1, 128, Applies::NextRequest, "workload",
                  "Mean length of a prompt; lengths go from half to one and a half of it."},
    ParameterSpec{"output", "Answer", "tokens", 1, 8192, 1, 32, Applies::NextRequest, "workload",
                  "Mean length of an answer; lengths go from half to one and a half of it."},
    ParameterSpec{"shared-prefix", "Shared prefix", "tokens", 0, 32768, 1, 0, Applies::NextRequest, "workload",
                  "Tokens that all prompts of a round begin with, on top of their own."},
    ParameterSpec{"rounds", "Rounds", "", 1, 50, 1, 5, Applies::NextRequest, "workload",
                  "Rounds with each setting, in turn; more of them narrow the intervals."},
    ParameterSpec{"seed", "Seed", "", 0, 999999, 1, 7, Applies::NextRequest, "workload",
                  "Draws lengths and tokens; the same seed sends the same requests."},
};

int *fieldOf(Workload &workload, std::string_view key)
{
    const std::pair<std::string_view, int *> fields[] = {{"requests", &workload.requests},
                                                         {"clients", &workload.clients},
                                                         {"prompt", &workload.promptTokens},
                                                         {"output", &workload.outputTokens},
                                                         {"shared-prefix", &workload.sharedPrefix},
                                                         {"rounds", &workload.rounds},
                                                         {"seed", &workload.seed}};
    for (const auto &[name, field] : fields) {
        if (name == key)
            return field;
    }
    return nullptr;
}

QString storeKey(const ParameterSpec &spec)
{
    return QStringLiteral("workload/") + QString::fromUtf8(spec.key.data(), qsizetype(spec.key.size()));
}

/// The ends of the lengths that are drawn around a mean.
std::pair<int, int> ends(int mean)
{
    return {std::max(1, mean / 2), mean + mean / 2};
}

} // namespace

int Workload::longest() const
{
    return sharedPrefix + ends(promptTokens).second + ends(outputTokens).second;
}

std::span<const ParameterSpec> workloadSpecs()
{
    return specs;
}

int workloadValue(const Workload &workload, std::string_view key)
{
    Workload copy = workload;
    const int *field = fieldOf(copy, key);
    return field ? *field : 0;
}

void setWorkloadValue(Workload &workload, std::string_view key, int value)
{
    if (int *field = fieldOf(workload, key))
        *field = value;
}

Workload storedWorkload(const Settings &settings)
{
    Workload workload;
    for (const ParameterSpec &spec : specs) {
        bool ok = false;
        const int value = settings.value(storeKey(spec)).toInt(&ok);
        if (ok && engine::checkParameter(spec, value).empty())
            setWorkloadValue(workload, spec.key, value);
    }
    return workload;
}

void storeWorkload(Settings &settings, const Workload &workload)
{
    for (const ParameterSpec &spec : specs)
        settings.setValue(storeKey(spec), workloadValue(workload, spec.key));
}

QString workloadText(const Workload &workload)
{
    const auto [promptFrom, promptTo] = ends(workload.promptTokens);
    const auto [outputFrom, outputTo] = ends(workload.outputTokens);
    QString text = tr("%1 requests, %2 at a time, prompts of %3 to %4 tokens, answers of %5 to %6, seed %7")
                       .arg(format::count(workload.requests), format::count(workload.clients),
                            format::count(promptFrom), format::count(promptTo), format::count(outputFrom),
                            format::count(outputTo), QString::number(workload.seed));
    if (workload.sharedPrefix > 0)
        text += tr(", %1 shared tokens before each prompt").arg(format::count(workload.sharedPrefix));
    return text;
}

QString workloadFault(const Workload &workload, const engine::ModelInfo &model)
{
    const int context = model.effective.maxModelLen;
    if (context <= 0 || workload.longest() < context) // a prompt needs room for one token more
        return {};
    return tr("The longest request of this workload takes %1 tokens and the context holds %2; make prompts or answers "
              "shorter.")
        .arg(format::count(workload.longest()), format::count(context));
}

} // namespace ui
