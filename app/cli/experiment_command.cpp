// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/command.h"
#include "app/cli/options.h"
#include "app/cli/output.h"
#include "engine/lab/experiment.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cstdio>

namespace cli {
namespace {

using engine::Error;
using engine::ErrorCode;

struct ExperimentOptions {
    ModelOptions model;
    std::string name;
    std::string modelled;
    bool list = false;
};

Json figuresJson(const engine::Figures &figures)
{
    Json json = Json::object();
    for (const auto &[name, value] : figures)
        std::visit([&json, &key = name](const auto &one) { json[key] = one; }, value);
    return json;
}

Json experimentJson(const engine::ExperimentResult &result)
{
    return Json{{"name", result.name},
                {"claim", result.claim},
                {"baseline", figuresJson(result.baseline)},
                {"treatment", figuresJson(result.treatment)},
                {"ratio", result.ratio},
                {"holds", result.holds},
                {"bound", result.bound},
                {"config", figuresJson(result.config)}};
}

std::string valueText(const engine::FigureValue &value)
{
    if (const auto *text = std::get_if<std::string>(&value))
        return *text;
    if (const auto *whole = std::get_if<std::int64_t>(&value))
        return std::to_string(*whole);
    char number[40];
    std::snprintf(number, sizeof number, "%.4g", std::get<double>(value));
    return number;
}

std::string figuresText(const char *title, const engine::Figures &figures)
{
    std::string text = std::string(title) + '\n';
    for (const auto &[name, value] : figures) {
        char line[80];
        std::snprintf(line, sizeof line, "  %-32s ", name.c_str());
        text += line + valueText(value) + '\n';
    }
    return text;
}

std::string resultText(const engine::ExperimentResult &result)
{
    char ratio[80];
    std::snprintf(ratio, sizeof ratio, "ratio %.3f, the claim %s\n", result.ratio,
                  result.holds ? "holds" : "does not hold");
    return result.name + ": " + result.claim + '\n' + figuresText("without", result.baseline)
        + figuresText("with", result.treatment) + figuresText("configuration", result.config) + ratio
        + "bound by: " + result.bound + '\n';
}

void list(const Context &context)
{
    for (const engine::ExperimentSpec &spec : engine::experimentSpecs()) {
        if (context.json)
            printJson(
                Json{{"name", spec.name}, {"what", spec.what}, {"claim", spec.claim}, {"modelled", spec.modelled}});
        else
            printText(std::string(spec.name) + ": " + std::string(spec.what)
                      + "\n    published: " + std::string(spec.claim) + '\n');
    }
}

engine::ExperimentHooks hooksOf(const Context &context)
{
    engine::ExperimentHooks hooks;
    hooks.stop = context.stop;
    if (!context.quiet)
        hooks.onStage = [](const std::string &stage) { std::fprintf(stderr, "%s\n", stage.c_str()); };
    return hooks;
}

void experiment(const ExperimentOptions &o, Context &context)
{
    if (o.list)
        return list(context);
    if (o.name.empty())
        throw Error(ErrorCode::InvalidArgument, "experiment: wanted a NAME, or --list for those that there are");
    static_cast<void>(engine::experimentSpec(o.name));
    if (o.modelled.empty() && o.model.model.empty())
        throw Error(ErrorCode::InvalidArgument, "experiment: wanted a MODEL, or --modelled with a device");
    const std::uint64_t seed = o.model.seed.value_or(0);
    engine::ExperimentResult result;
    if (!o.modelled.empty())
        result = engine::runModelledExperiment(o.name, engine::modelledTarget(o.modelled), seed, hooksOf(context));
    else
        result = openModel(o.model.model, [&](const std::string &path) {
            return engine::runDeviceExperiment(o.name, path, engineConfig(o.model), seed, hooksOf(context));
        });
    if (context.json)
        printJson(experimentJson(result));
    else
        printText(resultText(result));
}

} // namespace

void addExperiment(CLI::App &app, const Select &select)
{
    const auto o = std::make_shared<ExperimentOptions>();
    CLI::App *command = app.add_subcommand("experiment", "a fixed workload without and with one system");
    command->add_option("NAME", o->name, "which one; --list names them");
    addModelOptions(*command, o->model);
    command->get_option("MODEL")->required(false);
    std::string targets;
    for (const std::string &target : engine::modelledTargets())
        targets += (targets.empty() ? "" : " or ") + target;
    command->add_option("--modelled", o->modelled,
                        "step times of a published device in place of a forward pass: " + targets);
    command->add_flag("--list", o->list, "the experiments and the published claims");
    command->callback([o, select] { select([o](Context &context) { experiment(*o, context); }); });
}

} // namespace cli
