// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/command.h"
#include "app/cli/http_load_target.h"
#include "app/cli/input.h"
#include "app/cli/load_output.h"
#include "app/cli/numbers.h"
#include "app/cli/options.h"
#include "app/cli/output.h"
#include "app/cli/session.h"
#include "engine/api/text.h"
#include "engine/lab/engine_load_target.h"
#include "engine/lab/load_workload.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cmath>
#include <cstdlib>

namespace cli {
namespace {

using engine::Error;
using engine::ErrorCode;

struct LoadCommandOptions {
    ModelOptions model;
    std::string url;
    std::optional<std::string> apiKey;
    std::string servedModel;
    std::string endpoint = "completions";
    int requests = 100;
    int concurrency = 0;
    double requestRate = 0;
    std::optional<std::string> inputLen;
    std::optional<std::string> outputLen;
    std::optional<std::string> dataset;
    int sharedPrefix = 0;
    std::optional<std::string> goodput;
};

constexpr engine::LengthRange defaultInput{128, 128};
constexpr engine::LengthRange defaultOutput{64, 64};

void checkOptions(const LoadCommandOptions &o)
{
    if (o.model.model.empty() == o.url.empty())
        throw Error(ErrorCode::InvalidArgument, "load: wanted exactly one of MODEL and --url");
    if (!(o.requestRate >= 0) || !std::isfinite(o.requestRate))
        throw Error(ErrorCode::InvalidArgument,
                    "--request-rate: found " + std::to_string(o.requestRate)
                        + ", wanted requests a second, or 0 for all at once");
    if (o.endpoint != "completions" && o.endpoint != "chat")
        throw Error(ErrorCode::InvalidArgument, "--endpoint: found \"" + o.endpoint + "\", wanted completions or chat");
    if (o.dataset && o.inputLen)
        throw Error(ErrorCode::InvalidArgument,
                    "--input-len: the prompts come from --dataset, wanted only one of both");
}

std::optional<engine::LengthRange> lengths(const std::optional<std::string> &text, const char *option)
{
    return text ? std::optional(engine::parseLengthRange(*text, option)) : std::nullopt;
}

/// Where prompts come from, as far as it is known before anything is loaded.
struct Workload {
    std::optional<std::string> dataset; ///< its text
    engine::RandomWorkload random;
    engine::DatasetWorkload drawn;
};

Workload readWorkload(const LoadCommandOptions &o)
{
    Workload workload;
    const auto output = lengths(o.outputLen, "--output-len");
    workload.random = {o.requests,
                       lengths(o.inputLen, "--input-len").value_or(defaultInput),
                       output.value_or(defaultOutput),
                       o.sharedPrefix,
                       0,
                       o.model.seed.value_or(0)};
    workload.drawn = {o.requests, output, o.sharedPrefix, 0, o.model.seed.value_or(0)};
    if (o.dataset)
        workload.dataset = readFile(*o.dataset);
    return workload;
}

engine::LoadReport runAll(engine::LoadTarget &target, const std::vector<engine::LoadRequest> &requests,
                          const LoadCommandOptions &o, const Context &context)
{
    engine::LoadOptions options{o.concurrency, o.requestRate, {}, o.model.seed.value_or(0)};
    if (o.goodput)
        options.goodput = engine::parseGoodput(*o.goodput);
    Progress progress("load", context.quiet);
    const auto onProgress = [&](int ended) {
        progress.update(static_cast<double>(ended) / static_cast<double>(requests.size()),
                        std::to_string(ended) + " of " + std::to_string(requests.size()));
    };
    return engine::runLoad(target, requests, options, context.stop, onProgress);
}

/// About four bytes make a token of usual text; where no vocabulary is at hand nothing better is known.
int estimateTokens(const std::string &text)
{
    return static_cast<int>((text.size() + 3) / 4);
}

engine::LoadReport loadServer(const LoadCommandOptions &o, Workload workload, const Context &context)
{
    const char *fromEnvironment = std::getenv("OPENAI_API_KEY");
    HttpLoadOptions options{parseServerUrl(o.url), o.apiKey.value_or(fromEnvironment ? fromEnvironment : ""),
                            o.servedModel, o.endpoint == "chat", o.model.seed.value_or(0)};
    HttpLoadTarget target(options);
    workload.random.vocabSize = options.chat ? 0 : target.vocabSize();
    const std::vector<engine::LoadRequest> requests = workload.dataset
        ? engine::makeDatasetRequests(*workload.dataset, *o.dataset, workload.drawn, estimateTokens)
        : engine::makeRandomRequests(workload.random);
    return runAll(target, requests, o, context);
}

std::vector<engine::LoadRequest> requestsFor(const LoadCommandOptions &o, Workload workload,
                                             const engine::ModelInfo &info)
{
    if (!workload.dataset) {
        workload.random.vocabSize = info.vocabSize;
        return engine::makeRandomRequests(workload.random);
    }
    const auto text = openModel(o.model.model, [](const std::string &path) { return engine::openTextModel(path); });
    workload.drawn.maxTokens = info.effective.maxModelLen;
    return engine::makeDatasetRequests(*workload.dataset, *o.dataset, workload.drawn, [&text](const std::string &one) {
        return static_cast<int>(text->encode(one, {}).size());
    });
}

engine::LoadReport loadModel(const LoadCommandOptions &o, const Workload &workload, const Context &context)
{
    Session session(o.model, engineConfig(o.model), context);
    const std::vector<engine::LoadRequest> requests = requestsFor(o, workload, session.info());
    engine::LoadReport report = [&] {
        engine::EngineLoadTarget target(session.runner(), session.engine());
        return runAll(target, requests, o, context);
    }();
    session.finish();
    return report;
}

void load(const LoadCommandOptions &o, Context &context)
{
    checkOptions(o);
    if (o.goodput)
        static_cast<void>(engine::parseGoodput(*o.goodput));
    Workload workload = readWorkload(o);
    const engine::LoadReport report =
        o.url.empty() ? loadModel(o, workload, context) : loadServer(o, std::move(workload), context);
    if (context.json)
        printJson(loadJson(report));
    else
        printText(loadText(report));
    if (report.failed > 0 && report.completed == 0)
        throw Error(ErrorCode::IoError,
                    "load: all " + std::to_string(report.failed)
                        + " requests failed, the first one with: " + report.firstError);
    if (report.failed > 0 && !context.quiet)
        printWarning(std::to_string(report.failed) + " requests failed, the first one with: " + report.firstError);
}

} // namespace

void addLoad(CLI::App &app, const Select &select)
{
    const auto o = std::make_shared<LoadCommandOptions>();
    CLI::App *command = app.add_subcommand("load", "load generator: many requests at once, with latencies");
    addModelOptions(*command, o->model);
    command->get_option("MODEL")->required(false);
    command->add_option("--url", o->url, "an OpenAI-compatible server on the loopback, in place of MODEL");
    command->add_option("--api-key", o->apiKey, "key for --url (default: the variable OPENAI_API_KEY)");
    command->add_option("--served-model-name", o->servedModel, "model to ask for at --url (default: its first)");
    command->add_option("--endpoint", o->endpoint, "completions or chat, at --url")->capture_default_str();
    command->add_option("--requests", o->requests, "requests to send")
        ->check(numberFrom(1, 1000000))
        ->capture_default_str();
    command->add_option("--concurrency", o->concurrency, "open requests at most (default: no limit)")
        ->check(numberFrom(1, 100000));
    command->add_option("--request-rate", o->requestRate, "requests a second, Poisson arrivals (default: all at once)")
        ->check(anyNumber());
    command->add_option("--input-len", o->inputLen, "prompt tokens, A or A:B drawn evenly (default: 128)");
    command->add_option("--output-len", o->outputLen, "output tokens, A or A:B drawn evenly (default: 64)");
    command->add_option("--dataset", o->dataset, "prompts and output lengths from a ShareGPT JSON file");
    command
        ->add_option("--shared-prefix", o->sharedPrefix, "tokens that every prompt begins with, on top of the others")
        ->check(numberFrom(0, 1 << 24))
        ->capture_default_str();
    command->add_option("--goodput", o->goodput, "limits of a good request in milliseconds: ttft:500,tpot:50,e2e:5000");
    command->callback([o, select] { select([o](Context &context) { load(*o, context); }); });
}

} // namespace cli
