// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/command.h"
#include "app/cli/input.h"
#include "app/cli/options.h"
#include "app/cli/result_json.h"
#include "app/cli/session.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <limits>
#include <map>

namespace cli {
namespace {

using engine::Error;
using engine::ErrorCode;

struct GenerateOptions {
    ModelOptions model;
    SamplingOptions sampling;
    std::optional<std::string> prompt;
    std::string file;
    std::optional<std::string> ids;
    bool jsonl = false;
    bool parseSpecial = false;
};

int intMember(const Json &line, const char *key, int fallback)
{
    const std::int64_t value = integerMember(line, key, fallback);
    if (value < std::numeric_limits<int>::min() || value > std::numeric_limits<int>::max())
        throw Error(ErrorCode::Refused,
                    std::string(key) + ": found " + std::to_string(value) + ", wanted a smaller number");
    return static_cast<int>(value);
}

/// Members of a request line replace what the command line said.
engine::SamplingParams samplingFrom(const Json &line, engine::SamplingParams p)
{
    p.maxTokens = intMember(line, "max_tokens", p.maxTokens);
    p.temperature = numberMember(line, "temperature", p.temperature);
    p.topK = intMember(line, "top_k", p.topK);
    p.topP = numberMember(line, "top_p", p.topP);
    p.minP = numberMember(line, "min_p", p.minP);
    p.repetitionPenalty = numberMember(line, "repetition_penalty", p.repetitionPenalty);
    p.presencePenalty = numberMember(line, "presence_penalty", p.presencePenalty);
    p.frequencyPenalty = numberMember(line, "frequency_penalty", p.frequencyPenalty);
    if (const auto seed = seedMember(line, "seed"))
        p.seed = seed;
    if (line.contains("stop"))
        p.stop = textsMember(line, "stop");
    p.logprobs = intMember(line, "logprobs", p.logprobs);
    if (p.logprobs < 0 && member(line, "logprobs"))
        throw Error(ErrorCode::Refused, "logprobs: found " + std::to_string(p.logprobs) + ", wanted at least 0");
    p.ignoreEos = boolMember(line, "ignore_eos", p.ignoreEos);
    try {
        checkSampling(p);
    } catch (const Error &error) { // in a request a bad value is refused input, not wrong usage
        throw Error(ErrorCode::Refused, error.what());
    }
    return p;
}

engine::Request requestFrom(const Json &line, const GenerateOptions &o, const engine::SamplingParams &sampling)
{
    engine::Request request;
    const bool hasPrompt = line.contains("prompt") && !line["prompt"].is_null();
    const bool hasIds = line.contains("ids") && !line["ids"].is_null();
    if (hasPrompt == hasIds)
        throw Error(ErrorCode::Refused, "prompt: wanted exactly one of prompt and ids in the request");
    if (hasPrompt)
        request.prompt = textMember(line, "prompt");
    else
        request.ids = idsMember(line, "ids");
    request.parseSpecial = boolMember(line, "parse_special", o.parseSpecial);
    request.sampling = samplingFrom(line, sampling);
    return request;
}

/// The lines of standard input as requests; `errors` holds the result lines of bad ones by place.
std::vector<engine::Request> readRequests(const GenerateOptions &o, const engine::SamplingParams &sampling,
                                          std::map<std::size_t, Json> &errors, std::vector<std::size_t> &places,
                                          const std::stop_token &stop)
{
    std::vector<engine::Request> requests;
    std::size_t place = 0;
    for (int number = 1; !stop.stop_requested(); ++number) {
        const std::optional<std::string> line = readLine();
        if (!line)
            break;
        try {
            const std::string what = "line " + std::to_string(number);
            const Json object = parseJson(*line, what);
            if (!object.is_object())
                throw Error(ErrorCode::Refused, what + ": found " + object.type_name() + ", wanted an object");
            requests.push_back(requestFrom(object, o, sampling));
            places.push_back(place);
        } catch (const Error &error) {
            errors.emplace(place, Json{{"error", error.what()}});
        }
        ++place;
    }
    return requests;
}

void generateLines(const GenerateOptions &o, Session &session, const engine::SamplingParams &sampling, Context &context)
{
    std::map<std::size_t, Json> ready; // result lines that wait for earlier ones
    std::vector<std::size_t> places;
    std::vector<engine::Request> requests = readRequests(o, sampling, ready, places, context.stop);
    std::size_t next = 0;
    const auto printReady = [&] {
        for (auto line = ready.find(next); line != ready.end(); line = ready.find(++next)) {
            printJson(line->second);
            ready.erase(line);
        }
    };
    printReady();
    session.run(std::move(requests), nullptr, [&](std::size_t request, const RequestResult &result) {
        if (result.finished.reason == engine::FinishReason::Cancelled)
            return; // only an interrupt cancels here: what was finished is printed, the rest is not
        const bool failed = result.finished.reason == engine::FinishReason::Failed;
        ready.emplace(places[request], failed ? Json{{"error", result.finished.error}} : resultJson(result));
        printReady();
    });
    for (const auto &[place, line] : ready)
        printJson(line);
}

engine::Request requestOf(const GenerateOptions &o, const engine::SamplingParams &sampling)
{
    engine::Request request;
    if (o.ids)
        request.ids = parseIntList(*o.ids, "--ids");
    else
        request.prompt = o.prompt ? *o.prompt : readFile(o.file);
    request.parseSpecial = o.parseSpecial;
    request.sampling = sampling;
    return request;
}

void generateOne(engine::Request request, Session &session, Context &context)
{
    std::vector<engine::Request> requests;
    requests.push_back(std::move(request));
    const auto onText = [&context](std::size_t, const engine::TokenEvent &event) {
        if (!context.json)
            printText(event.text);
    };
    session.run(std::move(requests), onText, [&context](std::size_t, const RequestResult &result) {
        throwIfFailed(result);
        if (context.json)
            printJson(resultJson(result));
        else
            printText("\n");
    });
}

void generate(const GenerateOptions &o, Context &context)
{
    if ((o.prompt ? 1 : 0) + (o.file.empty() ? 0 : 1) + (o.ids ? 1 : 0) + (o.jsonl ? 1 : 0) != 1)
        throw Error(ErrorCode::InvalidArgument, "generate: wanted exactly one of -p, --file, --ids and --jsonl");
    const engine::EngineConfig config = engineConfig(o.model);
    const engine::SamplingParams sampling = samplingParams(o.sampling, o.model.seed);
    std::optional<engine::Request> request; // read before the model, so that a wrong one is told at once
    if (!o.jsonl)
        request = requestOf(o, sampling);
    Session session(o.model, config, context);
    if (request)
        generateOne(std::move(*request), session, context);
    else
        generateLines(o, session, sampling, context);
    session.finish();
}

} // namespace

void addGenerate(CLI::App &app, const Select &select)
{
    const auto o = std::make_shared<GenerateOptions>();
    CLI::App *command = app.add_subcommand("generate", "continues a text");
    addModelOptions(*command, o->model);
    addSamplingOptions(*command, o->sampling);
    command->add_option("-p,--prompt", o->prompt, "the text to continue");
    command->add_option("--file", o->file, "read the prompt from a file, - for standard input");
    command->add_option("--ids", o->ids, "the prompt as token ids separated by commas");
    command->add_flag("--jsonl", o->jsonl, "one request object a line on standard input; all run as one batch");
    command->add_flag("--parse-special", o->parseSpecial, "read special tokens written in the prompt");
    command->callback([o, select] { select([o](Context &context) { generate(*o, context); }); });
}

} // namespace cli
