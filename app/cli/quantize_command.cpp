// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/command.h"
#include "app/cli/input.h"
#include "app/cli/options.h"
#include "app/cli/output.h"
#include "engine/api/quantize.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <chrono>
#include <map>

namespace cli {
namespace {

using engine::Error;
using engine::ErrorCode;

struct QuantizeCommandOptions {
    ModelOptions model;
    std::string out;
    std::string type;
    std::string imatrix;
    std::string imatrixOut;
    std::string calibration;
    std::vector<std::string> keep;
    int context = 512;
};

engine::QuantizeOptions quantizeOptions(const QuantizeCommandOptions &o)
{
    if (!o.imatrix.empty() && !o.calibration.empty())
        throw Error(ErrorCode::InvalidArgument, "--imatrix and --calibration: found both, wanted one of them");
    if (!o.imatrixOut.empty() && o.calibration.empty())
        throw Error(ErrorCode::InvalidArgument,
                    "--imatrix-out: found without --calibration, wanted a text that measures the importance");
    if (o.context < 2)
        throw Error(ErrorCode::InvalidArgument,
                    "--context: found " + std::to_string(o.context) + ", wanted at least 2");
    engine::QuantizeOptions options;
    options.input = modelPath(o.model.model);
    options.output = o.out;
    options.type = o.type;
    options.engine = engineConfig(o.model);
    options.importanceFile = o.imatrix;
    options.importanceOut = o.imatrixOut;
    options.calibrationContext = o.context;
    if (!o.calibration.empty() && (options.calibrationText = readFile(o.calibration)).empty())
        throw Error(ErrorCode::Refused, o.calibration + ": is empty, wanted text");
    for (const std::string &rule : o.keep) {
        const std::size_t sign = rule.rfind('=');
        if (sign == std::string::npos || sign == 0 || sign + 1 == rule.size())
            throw Error(ErrorCode::InvalidArgument, "--keep: found \"" + rule + "\", wanted PATTERN=TYPE");
        options.keep.emplace_back(rule.substr(0, sign), rule.substr(sign + 1));
    }
    return options;
}

Json toJson(const engine::QuantizeResult &result, const std::string &out, double seconds)
{
    Json fallbacks = Json::array();
    for (const engine::QuantizeFallback &f : result.fallbacks)
        fallbacks.push_back(
            {{"tensor", f.tensor}, {"requested", f.requested}, {"effective", f.effective}, {"reason", f.reason}});
    return {{"out", out},         {"bytes", result.bytes},  {"types", result.types},      {"tensors", result.tensors},
            {"seconds", seconds}, {"fallbacks", fallbacks}, {"warnings", result.warnings}};
}

std::string toText(const engine::QuantizeResult &result, const std::string &out, double seconds)
{
    std::string text = out + ": " + std::to_string(result.bytes) + " bytes, " + std::to_string(result.tensors)
        + " tensors in " + std::to_string(seconds) + " s\ntypes  ";
    for (const auto &[type, count] : result.types)
        text += " " + type + ":" + std::to_string(count);
    text += "\n";
    std::map<std::string, std::vector<std::string>> byChange;
    for (const engine::QuantizeFallback &f : result.fallbacks)
        byChange[f.requested + " -> " + f.effective + ", as " + f.reason].push_back(f.tensor);
    for (const auto &[change, tensors] : byChange)
        text += change + ": " + tensors.front()
            + (tensors.size() > 1 ? " and " + std::to_string(tensors.size() - 1) + " more" : "") + "\n";
    return text;
}

void quantize(const QuantizeCommandOptions &o, Context &context)
{
    const auto start = std::chrono::steady_clock::now();
    engine::QuantizeOptions options = quantizeOptions(o);
    Progress progress("quantize", context.quiet);
    options.progress = [&progress](double fraction, const std::string &stage) { progress.update(fraction, stage); };
    const engine::QuantizeResult result = engine::quantizeModel(options, context.stop);
    progress.finish();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    for (const std::string &warning : result.warnings) {
        if (!context.quiet)
            printWarning(warning);
    }
    if (context.json)
        printJson(toJson(result, o.out, seconds));
    else
        printText(toText(result, o.out, seconds));
}

std::string typeList()
{
    std::string text;
    for (const std::string &name : engine::quantizeTypeNames())
        text += (text.empty() ? "" : ", ") + name;
    return text;
}

} // namespace

void addQuantize(CLI::App &app, const Select &select)
{
    const auto o = std::make_shared<QuantizeCommandOptions>();
    CLI::App *command = app.add_subcommand("quantize", "writes a model as a GGUF file with other weight types");
    addModelOptions(*command, o->model);
    command->add_option("OUT", o->out, "GGUF file to write")->required();
    command->add_option("--type", o->type, "type of the matrices, or a mix: " + typeList())->required();
    command->add_option("--imatrix", o->imatrix, "importance matrix, as llama.cpp writes it (GGUF or .dat)");
    command->add_option("--calibration", o->calibration, "text that measures the importance by running the model");
    command->add_option("--imatrix-out", o->imatrixOut, "where to keep the importance that was measured");
    command->add_option("--context", o->context, "tokens of one chunk of the calibration text")->capture_default_str();
    command
        ->add_option("--keep", o->keep,
                     "PATTERN=TYPE, a type of their own for the matrices of that name: attn_v=f16, v_proj=f16, "
                     "blk.0.ffn_down=q6_k (repeatable; the first that matches counts)")
        ->allow_extra_args(false);
    command->callback([o, select] { select([o](Context &context) { quantize(*o, context); }); });
}

} // namespace cli
