// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/command.h"
#include "app/cli/input.h"
#include "app/cli/numbers.h"
#include "app/cli/options.h"
#include "app/cli/output.h"
#include "app/cli/output_file.h"
#include "app/cli/session.h"
#include "engine/api/evaluate.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cstdio>
#include <optional>

namespace cli {
namespace {

using engine::Error;
using engine::ErrorCode;

struct LogitsOptions {
    ModelOptions model;
    std::string idsFile;
    std::string out;
    bool allPositions = false;
};

struct PerplexityCommandOptions {
    ModelOptions model;
    std::string file;
    std::optional<std::string> perToken;
    std::optional<std::string> klAgainst;
    int context = 512;
};

std::vector<std::vector<int>> readIdLists(const std::string &path)
{
    const Json lists = parseJson(readFile(path), path);
    if (!lists.is_array())
        throw Error(ErrorCode::Refused,
                    path + ": found " + lists.type_name() + ", wanted a list of lists of token ids");
    std::vector<std::vector<int>> result;
    for (const Json &list : lists)
        result.push_back(idList(list, path + ": list " + std::to_string(result.size())));
    return result;
}

std::unique_ptr<engine::Evaluator> openEvaluator(const ModelOptions &options, const Context &context)
{
    const engine::EngineConfig config = engineConfig(options);
    auto evaluator = openModel(
        options.model, [&](const std::string &path) { return engine::openEvaluator(path, config, context.stop); });
    tellOfModel(evaluator->info(), context);
    return evaluator;
}

void logits(const LogitsOptions &o, Context &context)
{
    const std::vector<std::vector<int>> lists = readIdLists(o.idsFile);
    OutputFile file("--out", o.out);
    StatsFile stats(o.model.statsFile);
    const auto evaluator = openEvaluator(o.model, context);
    std::int64_t rows = 0;
    Progress progress("logits", context.quiet);
    for (std::size_t i = 0; i < lists.size(); ++i) {
        progress.update(static_cast<double>(i) / static_cast<double>(lists.size()), "list " + std::to_string(i + 1));
        evaluator->logits(
            lists[i], o.allPositions,
            [&](std::span<const float> row) {
                file.write(row);
                ++rows;
            },
            context.stop);
    }
    progress.finish();
    file.commit();
    stats.write(evaluator->totals());
    const Json result{{"rows", rows}, {"vocab_size", evaluator->vocabSize()}, {"out", o.out}};
    if (context.json)
        printJson(result);
    else
        printText(std::to_string(rows) + " rows of " + std::to_string(evaluator->vocabSize()) + " logits in " + o.out
                  + "\n");
}

std::string klText(const engine::KlResult &kl, const std::string &against)
{
    char line[200];
    std::snprintf(line, sizeof line,
                  "KL divergence from a KV cache of %s: mean %.3g, median %.3g, 99 %% %.3g, "
                  "largest %.3g; same first choice %.2f %%\n",
                  against.c_str(), kl.mean, kl.median, kl.p99, kl.max, kl.sameTop * 100.0);
    return line;
}

void perplexity(const PerplexityCommandOptions &o, Context &context)
{
    const std::string text = readFile(o.file);
    std::optional<OutputFile> file;
    if (o.perToken)
        file.emplace("--per-token", *o.perToken);
    StatsFile stats(o.model.statsFile);
    const auto evaluator = openEvaluator(o.model, context);
    Progress progress("perplexity", context.quiet);
    engine::PerplexityOptions options;
    options.context = o.context;
    if (o.klAgainst)
        options.klAgainst = kvTypeOf("--kl-against", *o.klAgainst);
    options.progress = [&progress](int done, int total) {
        progress.update(static_cast<double>(done) / total,
                        "chunk " + std::to_string(done) + " of " + std::to_string(total));
    };
    const engine::PerplexityResult result = engine::perplexity(*evaluator, text, options, context.stop);
    progress.finish();
    if (file) {
        file->write(result.logprobs);
        file->commit();
    }
    stats.write(evaluator->totals());
    const std::string types = engine::kvTypesText(evaluator->info().effective.kv);
    if (context.json) {
        Json json{{"tokens", result.tokens},
                  {"nll", result.nll},
                  {"ppl", result.perplexity},
                  {"ppl_stderr", result.standardError},
                  {"kv_cache_dtype", {{"requested", o.model.kvType}, {"effective", types}}}};
        if (result.kl)
            json["kl"] = Json{{"against", *o.klAgainst}, {"mean", result.kl->mean}, {"median", result.kl->median},
                              {"p99", result.kl->p99},   {"max", result.kl->max},   {"same_top", result.kl->sameTop}};
        printJson(json);
        return;
    }
    printText("perplexity " + std::to_string(result.perplexity) + " +/- " + std::to_string(result.standardError)
              + " over " + std::to_string(result.tokens) + " tokens (mean NLL " + std::to_string(result.nll)
              + "), KV cache " + types + "\n");
    if (result.kl)
        printText(klText(*result.kl, *o.klAgainst));
}

} // namespace

void addLogits(CLI::App &app, const Select &select)
{
    const auto o = std::make_shared<LogitsOptions>();
    CLI::App *command = app.add_subcommand("logits", "raw logits of token lists, as float32 little-endian rows");
    addModelOptions(*command, o->model);
    command->add_option("--ids-file", o->idsFile, "JSON list of lists of token ids")->required();
    command->add_option("--out", o->out, "file to write")->required();
    command->add_flag("--all-positions", o->allPositions, "a row for every position, not only the last");
    command->callback([o, select] { select([o](Context &context) { logits(*o, context); }); });
}

void addPerplexity(CLI::App &app, const Select &select)
{
    const auto o = std::make_shared<PerplexityCommandOptions>();
    CLI::App *command = app.add_subcommand("perplexity", "how well a model predicts a text");
    addModelOptions(*command, o->model);
    command->add_option("--file", o->file, "the text")->required();
    command
        ->add_option("--context", o->context,
                     "tokens of one chunk; chunks do not overlap, a last partial one is dropped")
        ->check(numberFrom(2, 1 << 30))
        ->capture_default_str();
    command->add_option(
        "--kl-against", o->klAgainst,
        "also compare the distributions with those of a KV cache of this type: f32, f16, bf16, q8_0, fp8");
    command->add_option("--per-token", o->perToken,
                        "write the float32 log-probability of every predicted token to this file");
    command->callback([o, select] { select([o](Context &context) { perplexity(*o, context); }); });
}

} // namespace cli
