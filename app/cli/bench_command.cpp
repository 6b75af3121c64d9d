// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/command.h"
#include "app/cli/numbers.h"
#include "app/cli/options.h"
#include "app/cli/output.h"
#include "app/cli/session.h"
#include "engine/lab/bench.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <cstdio>

namespace cli {
namespace {

using engine::Error;
using engine::ErrorCode;

struct BenchCommandOptions {
    ModelOptions model;
    std::string prompts = "512";
    std::string generates = "128";
    std::string depths = "0";
    std::string batches = "1";
    int repetitions = 5;
};

std::vector<int> sizes(const std::string &text, const char *option)
{
    std::vector<int> values = parseIntList(text, option);
    const bool negative = std::any_of(values.begin(), values.end(), [](int v) { return v < 0; });
    if (values.empty() || negative)
        throw Error(ErrorCode::InvalidArgument,
                    std::string(option) + ": found \"" + text + "\", wanted numbers from 0, separated by commas");
    return values;
}

Json rowJson(const engine::BenchRow &row, const engine::ModelInfo &info)
{
    const engine::Spread &rate = row.tokensPerSecond;
    return Json{{"test", row.test},
                {"batch", row.batch},
                {"depth", row.depth},
                {"tokens_per_second",
                 {{"mean", rate.mean},
                  {"stdev", rate.stdev},
                  {"min", rate.minimum},
                  {"median", rate.median},
                  {"max", rate.maximum}}},
                {"bytes_per_token", row.bytesPerToken},
                {"bandwidth_gbps", row.bandwidthGbps},
                {"roofline_gbps", row.rooflineGbps},
                {"roofline_fraction", row.rooflineFraction},
                {"gflops", row.gflops},
                {"peak_gflops", row.peakGflops},
                {"peak_fraction", row.peakFraction},
                {"threads", info.effective.threads},
                {"isa", info.isa},
                {"kv_cache_dtype", engine::kvTypesText(info.effective.kv)},
                {"device", info.effective.device}};
}

std::string rowText(const engine::BenchRow &row)
{
    char line[300];
    std::snprintf(
        line, sizeof line,
        "%-10s depth %-6d %10.1f +/- %-8.1f tokens/s  median %10.1f  %6.1f MB a token, %6.1f GB/s, %3.0f %% of "
        "%.1f GB/s",
        row.test.c_str(), row.depth, row.tokensPerSecond.mean, row.tokensPerSecond.stdev, row.tokensPerSecond.median,
        row.bytesPerToken / 1e6, row.bandwidthGbps, row.rooflineFraction * 100.0, row.rooflineGbps);
    std::string text = line;
    if (row.gflops > 0) {
        std::snprintf(line, sizeof line, ", %6.1f GFLOP/s, %3.0f %% of %.0f", row.gflops, row.peakFraction * 100.0,
                      row.peakGflops);
        text += line;
    }
    return text + "\n";
}

void bench(const BenchCommandOptions &o, Context &context)
{
    engine::EngineConfig config = engineConfig(o.model);
    engine::BenchOptions options;
    options.prompts = sizes(o.prompts, "-p");
    options.generates = sizes(o.generates, "-n");
    options.depths = sizes(o.depths, "-d");
    options.batches = sizes(o.batches, "-b");
    options.repetitions = o.repetitions;
    options.seed = o.model.seed.value_or(0);
    config.kv.prefixCaching = false; // repetitions would be answered from the cache
    const int largestBatch = *std::max_element(options.batches.begin(), options.batches.end());
    if (largestBatch > config.limits.maxNumSeqs)
        throw Error(ErrorCode::InvalidArgument,
                    "-b: found " + std::to_string(largestBatch) + ", wanted at most --max-num-seqs ("
                        + std::to_string(config.limits.maxNumSeqs) + ")");

    Session session(o.model, config, context);
    if (!context.json)
        printText(session.info().name + ", " + session.info().backend + " " + session.info().isa + ", "
                  + std::to_string(session.info().effective.threads) + " threads\n");
    engine::runBench(
        session.runner(), session.engine(), session.info(), options,
        [&](const engine::BenchRow &row) {
            if (context.json)
                printJson(rowJson(row, session.info()));
            else
                printText(rowText(row));
        },
        context.stop);
    session.finish();
}

} // namespace

void addBench(CLI::App &app, const Select &select)
{
    const auto o = std::make_shared<BenchCommandOptions>();
    CLI::App *command = app.add_subcommand("bench", "speed of prefill and decode against the memory roofline");
    addModelOptions(*command, o->model);
    command->add_option("-p", o->prompts, "prompt lengths, 0 skips")->capture_default_str();
    command->add_option("-n", o->generates, "output lengths, 0 skips")->capture_default_str();
    command->add_option("-d", o->depths, "tokens already in the context before decode")->capture_default_str();
    command->add_option("-b", o->batches, "sequences decoding together")->capture_default_str();
    command->add_option("-r", o->repetitions, "repetitions of each test")
        ->check(numberFrom(1, 1000))
        ->capture_default_str();
    command->callback([o, select] { select([o](Context &context) { bench(*o, context); }); });
}

} // namespace cli
