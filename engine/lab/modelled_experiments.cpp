// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/lab/modelled_experiments.h"

#include "engine/api/error.h"
#include "engine/lab/experiment_workloads.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace engine {
namespace {

using modelled::Trial;

/// 3,000 prompts: the size of the benchmark whose batch of 256 is used (InternLM/lmdeploy, a100_fp16.md).
constexpr int pagingRequests = 3000;
constexpr int batchingRequests = 1000;

Figures throughputFigures(const LoadReport &report)
{
    return {{"sequences", std::int64_t{report.serving.maxRunning.value_or(0)}},
            {"output_throughput", report.outputThroughput},
            {"request_throughput", report.requestThroughput},
            {"e2e_p95_ms", report.e2eMs ? report.e2eMs->p95 : 0.0},
            {"kv_waste", report.serving.kvWaste.value_or(0)},
            {"preemptions", static_cast<std::int64_t>(report.serving.preemptions.value_or(0))}};
}

ExperimentResult paging(const Trial &trial)
{
    ModelledSetup paged = defaultSetup(trial.target);
    ModelledSetup contiguous = paged;
    contiguous.config.baselines.reserveMaxLength = true;
    contiguous.config.admissionReserve = 0; // nothing grows beyond what was taken at admission
    const std::vector<ModelledRequest> requests = shareGptLengths(pagingRequests, 0, trial.seed);
    const LoadReport before = runSide(trial.target, contiguous, requests);
    checkStop(trial.hooks);
    const LoadReport after = runSide(trial.target, paged, requests);

    ExperimentResult result;
    result.claim = "pages hold at least 4 times the sequences in the same KV bytes, at 4.8 times the throughput";
    result.baseline = throughputFigures(before);
    result.treatment = throughputFigures(after);
    result.ratio = after.outputThroughput / before.outputThroughput;
    const double sequences = static_cast<double>(*after.serving.maxRunning) / *before.serving.maxRunning;
    result.holds = sequences >= 4 && result.ratio >= 4.8;
    result.bound = "memory bandwidth: the weights are read once a step for all sequences, each one's cache for itself";
    result.config = describeTarget(trial.target, paged, trial.seed);
    result.config.emplace_back("sequences_ratio", sequences);
    result.config.emplace_back("requests", std::int64_t{pagingRequests});
    result.config.emplace_back("workload", "ShareGPT lengths, all at once");
    return result;
}

/// The highest Poisson rate whose P95 of the end-to-end latency stays within `limitMs`, and the run at it.
std::pair<double, LoadReport> highestRate(const Trial &trial, const ModelledSetup &setup, double limitMs)
{
    const auto run = [&](double rate) {
        checkStop(trial.hooks);
        return runSide(trial.target, setup, shareGptLengths(batchingRequests, rate, trial.seed));
    };
    double good = 0;
    LoadReport best;
    double step = 2; // factor; its square root after every rate that is too high
    for (double rate = 0.25; step > 1.05;) {
        LoadReport report = run(rate);
        if (report.e2eMs->p95 <= limitMs) {
            good = rate;
            best = std::move(report);
        } else {
            step = std::sqrt(step);
        }
        if (good == 0)
            break;
        rate = good * step;
        if (rate > 1000)
            break;
    }
    return {good, std::move(best)};
}

/// Throughput of both systems at one limit on the P95.
struct AtLimit {
    double staticRate = 0;
    double continuousRate = 0;
    LoadReport staticRun;
    LoadReport continuousRun;
    [[nodiscard]] double ratio() const
    {
        return staticRun.outputThroughput > 0 ? continuousRun.outputThroughput / staticRun.outputThroughput : 0;
    }
};

AtLimit compareAt(const Trial &trial, const ModelledSetup &fixed, const ModelledSetup &continuous, double limitMs)
{
    AtLimit at;
    std::tie(at.staticRate, at.staticRun) = highestRate(trial, fixed, limitMs);
    std::tie(at.continuousRate, at.continuousRun) = highestRate(trial, continuous, limitMs);
    return at;
}

ExperimentResult dynamicBatching(const Trial &trial)
{
    const ModelledSetup continuous = defaultSetup(trial.target);
    ModelledSetup fixed = continuous;
    fixed.config.baselines.staticBatches = true;
    const LoadReport alone = runSide(trial.target, continuous, shareGptLengths(batchingRequests, 0.02, trial.seed));
    const double unloadedMs = alone.e2eMs->p95;
    const AtLimit at = compareAt(trial, fixed, continuous, 2 * unloadedMs);

    ExperimentResult result;
    result.claim = "at a P95 of twice that of an idle engine, continuous batching serves at least 3 times as much";
    result.baseline = throughputFigures(at.staticRun);
    result.baseline.emplace_back("request_rate", at.staticRate);
    result.treatment = throughputFigures(at.continuousRun);
    result.treatment.emplace_back("request_rate", at.continuousRate);
    result.ratio = at.ratio();
    result.holds = result.ratio >= 3;
    result.bound = "a static batch lasts as long as its longest answer, and who comes meanwhile waits for its end; the "
                   "looser the limit, the less that costs";
    result.config = describeTarget(trial.target, continuous, trial.seed);
    result.config.emplace_back("limit_p95_ms", 2 * unloadedMs);
    result.config.emplace_back("ratio_at_3x", compareAt(trial, fixed, continuous, 3 * unloadedMs).ratio());
    result.config.emplace_back("requests", std::int64_t{batchingRequests});
    result.config.emplace_back("workload", "ShareGPT lengths, Poisson arrivals");
    return result;
}

ExperimentResult prefixCache(const Trial &trial)
{
    constexpr int systemPrompt = 1024;
    constexpr int requests = 400;
    ModelledSetup cached = defaultSetup(trial.target);
    cached.config.kv.prefixCaching = true;
    const ModelledSetup plain = defaultSetup(trial.target);
    std::vector<ModelledRequest> list = shareGptLengths(requests, 4, trial.seed);
    for (ModelledRequest &request : list) {
        request.sharedTokens = systemPrompt;
        request.sharedGroup = 1;
        request.promptTokens += systemPrompt;
    }
    const LoadReport before = runSide(trial.target, plain, list);
    const LoadReport after = runSide(trial.target, cached, list);
    const auto figures = [](const LoadReport &report) {
        Figures all = throughputFigures(report);
        all.emplace_back("ttft_mean_ms", report.ttftMs->mean);
        all.emplace_back("ttft_p95_ms", report.ttftMs->p95);
        all.emplace_back("prefix_hit_rate", report.serving.prefixHitRate.value_or(0));
        return all;
    };
    ExperimentResult result;
    result.claim = "with a system prompt of 1,024 tokens in common the mean time to the first token falls to a half or "
                   "less";
    result.baseline = figures(before);
    result.treatment = figures(after);
    result.ratio = before.ttftMs->mean / after.ttftMs->mean;
    result.holds = result.ratio >= 2;
    result.bound = "the prompts' own tokens and the step that the first token waits for";
    result.config = describeTarget(trial.target, cached, trial.seed);
    result.config.emplace_back("requests", std::int64_t{requests});
    result.config.emplace_back("shared_tokens", std::int64_t{systemPrompt});
    result.config.emplace_back("workload", "ShareGPT lengths behind the shared tokens, 4 requests a second");
    return result;
}

ExperimentResult chunkedPrefill(const Trial &trial)
{
    constexpr int chats = 32;
    constexpr int longPrompts = 40;
    ModelledSetup chunked = defaultSetup(trial.target);
    const int longTokens = chunked.maxModelLen * 3 / 4;
    chunked.config.limits.maxNumBatchedTokens = 512;
    ModelledSetup whole = chunked;
    whole.config.limits.maxNumBatchedTokens = longTokens + modelledMaxSeqs;
    whole.config.baselines.wholePrompts = true;
    std::vector<ModelledRequest> list;
    for (int i = 0; i < chats; ++i)
        list.push_back({0, 128, 1000, 0, 0});
    for (int i = 0; i < longPrompts; ++i)
        list.push_back({1.0 + 0.5 * i, longTokens, 1, 0, 0});
    const LoadReport before = runSide(trial.target, whole, list);
    const LoadReport after = runSide(trial.target, chunked, list);
    const auto figures = [](const LoadReport &report) {
        return Figures{{"itl_p50_ms", report.itlMs->p50},
                       {"itl_p99_ms", report.itlMs->p99},
                       {"output_throughput", report.outputThroughput},
                       {"duration_s", report.durationSeconds}};
    };
    ExperimentResult result;
    result.claim =
        "the P99 of the gaps between tokens of running chats falls to a half or less while long prompts come";
    result.baseline = figures(before);
    result.treatment = figures(after);
    result.ratio = before.itlMs->p99 / after.itlMs->p99;
    result.holds = result.ratio >= 2;
    result.bound = "a chunk costs at least one reading of the weights";
    result.config = describeTarget(trial.target, chunked, trial.seed);
    result.config.emplace_back("chats", std::int64_t{chats});
    result.config.emplace_back("long_prompts", std::int64_t{longPrompts});
    result.config.emplace_back("long_prompt_tokens", std::int64_t{longTokens});
    return result;
}

} // namespace

ExperimentResult runModelledExperiment(std::string_view name, const ModelledTarget &target, std::uint64_t seed,
                                       const ExperimentHooks &hooks)
{
    using Function = ExperimentResult (*)(const Trial &);
    static constexpr std::pair<std::string_view, Function> functions[] = {
        {"paging", paging},
        {"dynamic-batching", dynamicBatching},
        {"prefix-cache", prefixCache},
        {"chunked-prefill", chunkedPrefill},
        {"flash-attention", modelled::flashAttention},
        {"gqa", modelled::groupedQueries},
        {"overload", modelled::overload},
    };
    static_cast<void>(experimentSpec(name));
    for (const auto &[known, function] : functions) {
        if (known != name)
            continue;
        ExperimentResult result = function({target, seed, hooks});
        result.name = name;
        return result;
    }
    throw Error(ErrorCode::InvalidArgument,
                "--modelled: \"" + std::string(name) + "\" measures this machine, wanted an experiment of serving");
}

} // namespace engine
