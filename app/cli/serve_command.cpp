// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/command.h"
#include "app/cli/numbers.h"
#include "app/cli/options.h"
#include "app/cli/output.h"
#include "app/cli/session.h"
#include "app/serve/server.h"
#include "engine/api/worker.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <condition_variable>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>

namespace cli {
namespace {

using engine::Error;
using engine::ErrorCode;

struct ServeOptions {
    ModelOptions model;
    serve::ServerOptions server;
    std::string name;
    bool noKey = false;
    int maxQueuedReqs = 0;
    std::int64_t maxQueuedTokens = 0;
};

/// The key in force; a random one is `made`.
std::string chooseKey(const ServeOptions &o, bool &made)
{
    if (o.noKey && !o.server.apiKey.empty())
        throw Error(ErrorCode::InvalidArgument, "--no-api-key: found --api-key too, wanted one of them");
    const bool local = serve::isLoopback(o.server.host);
    if (o.noKey && !local)
        throw Error(ErrorCode::InvalidArgument,
                    "--no-api-key: found --host " + o.server.host
                        + ", which other machines can reach; without a key only the loopback is served");
    made = !o.noKey && o.server.apiKey.empty();
    return made ? serve::randomKey() : o.server.apiKey;
}

void announce(const serve::Server &server, const std::string &model, const std::string &madeKey, const Context &context)
{
    if (context.json) {
        Json line{{"listening", true}, {"url", server.url()}, {"model", model}};
        if (!madeKey.empty())
            line["api_key"] = madeKey;
        printJson(line);
        return;
    }
    std::string text = "listening on " + server.url() + ", model " + model + '\n';
    if (!madeKey.empty())
        text += "API key: " + madeKey + '\n';
    printText(text);
}

void waitForStop(const std::stop_token &stop)
{
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    (void)stopped.wait(lock, stop, [] { return false; });
}

void serveModel(ServeOptions &o, Context &context)
{
    bool made = false;
    o.server.apiKey = chooseKey(o, made);
    if (!serve::isLoopback(o.server.host) && !context.quiet)
        printWarning("--host " + o.server.host
                     + ": other machines can reach this server; whoever has the key may use it");
    StatsFile stats(o.model.statsFile);
    engine::EngineConfig config = engineConfig(o.model);
    config.maxNumQueuedReqs = o.maxQueuedReqs;
    config.maxNumQueuedTokens = o.maxQueuedTokens;
    std::unique_ptr<engine::Engine> engine = engine::makeEngine(engine::ownWorkerCommand());
    const engine::ModelInfo info = [&] { // the runner lets go of the engine's events before the server takes them
        engine::RequestRunner runner(*engine);
        return loadModel(runner, o.model, config, context);
    }();
    std::string lack;
    const serve::ServedModel model = serve::openServedModel(info, o.name, &lack);
    if (!lack.empty() && !context.quiet)
        printWarning(lack);
    o.server.onOtherEvent = [quiet = context.quiet](const engine::Event &event) {
        if (!quiet)
            warnOf(event);
    };
    {
        serve::Server server(*engine, model, o.server);
        server.start();
        announce(server, model.name, made ? o.server.apiKey : std::string(), context);
        waitForStop(context.stop);
        server.stop();
    }
    const engine::EngineTotals totals = engine->totals();
    engine.reset(); // and its worker, which the statistics count
    stats.write(totals);
}

} // namespace

void addServe(CLI::App &app, const Select &select)
{
    const auto o = std::make_shared<ServeOptions>();
    CLI::App *command = app.add_subcommand("serve", "answers OpenAI-compatible requests over HTTP");
    addModelOptions(*command, o->model);
    constexpr int maxPort = 65535;
    command->add_option("--host", o->server.host, "address to listen on")->capture_default_str();
    command->add_option("--port", o->server.port, "port to listen on, 0 = any free one")
        ->check(numberFrom(0, maxPort))
        ->capture_default_str();
    command->add_option("--api-key", o->server.apiKey,
                        "the key that clients must give; a random one is made and printed");
    command->add_flag("--no-api-key", o->noKey, "serve everybody on this machine");
    command->add_option("--served-model-name", o->name, "how clients call the model");
    command
        ->add_option("--allowed-host", o->server.otherNames,
                     "another name of this machine that clients may use (repeatable)")
        ->allow_extra_args(false);
    command
        ->add_option("--max-num-queued-reqs", o->maxQueuedReqs,
                     "requests that may wait for a place; more get 429, 0 = any number")
        ->check(numberFrom(0, std::numeric_limits<int>::max()));
    command
        ->add_option("--max-num-queued-tokens", o->maxQueuedTokens,
                     "prompt tokens that may wait for a place; more get 429, 0 = any number")
        ->check(numberFrom(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()));
    command->add_flag("--vllm-metric-names", o->server.vllmMetricNames, "metrics also under vLLM's own names");
    command->callback([o, select] { select([o](Context &context) { serveModel(*o, context); }); });
}

} // namespace cli
