// SPDX-License-Identifier: GPL-3.0-or-later
// paging, dynamic-batching and overload on this machine.
#include "engine/api/inspect.h"
#include "engine/lab/device_experiments.h"
#include "engine/lab/experiment_workloads.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace engine::device {
namespace {

/// Room for one request: what was asked for, within the model's own context.
int modelLen(const DeviceTrial &trial)
{
    const auto own = static_cast<int>(std::min<std::int64_t>(inspectModel(trial.path).contextLength, mostModelLen));
    return trial.config.maxModelLen > 0 ? std::min(trial.config.maxModelLen, own) : own;
}

/// The same requests on both sides: prompts and answers with means of `prompt` and `output` tokens.
std::vector<LoadRequest> shortRequests(int count, double prompt, double output, int vocabSize, std::uint64_t seed)
{
    LabRandom random(seed);
    std::vector<LoadRequest> requests(static_cast<std::size_t>(count));
    for (LoadRequest &request : requests) {
        request.ids.resize(static_cast<std::size_t>(drawLength(random, prompt, 2, static_cast<int>(4 * prompt))));
        for (int &id : request.ids)
            id = random.integer(0, vocabSize - 1);
        request.outputTokens = drawLength(random, output, 2, static_cast<int>(4 * output));
    }
    return requests;
}

Figures servingFigures(const LoadReport &report)
{
    return {{"sequences", std::int64_t{report.serving.maxRunning.value_or(0)}},
            {"output_throughput", report.outputThroughput},
            {"e2e_p95_ms", report.e2eMs->p95},
            {"ttft_p95_ms", report.ttftMs->p95},
            {"tpot_p50_ms", report.tpotMs ? report.tpotMs->p50 : 0.0},
            {"kv_waste", report.serving.kvWaste.value_or(0)},
            {"preemptions", static_cast<std::int64_t>(report.serving.preemptions.value_or(0))},
            {"duration_s", report.durationSeconds}};
}

/// How much longer a step becomes with more sequences, as measured on the two sides.
std::string computeBound(const LoadReport &few, const LoadReport &many)
{
    char text[240];
    const double grown = few.tpotMs && many.tpotMs && few.tpotMs->p50 > 0 ? many.tpotMs->p50 / few.tpotMs->p50 : 0;
    const double sequences =
        static_cast<double>(many.serving.maxRunning.value_or(1)) / std::max(few.serving.maxRunning.value_or(1), 1);
    std::snprintf(text, sizeof text,
                  "arithmetic: with %.1f times the sequences a token takes %.1f times as long on this processor, as a "
                  "step is bound by its products and not by reading the weights",
                  sequences, grown);
    return text;
}

EngineConfig servingConfig(const DeviceTrial &trial)
{
    EngineConfig config = trial.config;
    config.kv.prefixCaching = false;
    config.kv.budgetBytes = 0;
    config.maxModelLen = modelLen(trial);
    return config;
}

} // namespace

ExperimentResult paging(const DeviceTrial &trial)
{
    constexpr int places = 4; // that the pool has for requests of the longest context
    constexpr int requests = 20;
    EngineConfig config = servingConfig(trial);
    config.limits.maxNumSeqs = requests;
    config.kv.blockTokens = 16;
    config.kv.numBlocks = places * ((config.maxModelLen + 15) / 16);
    EngineConfig contiguous = config;
    contiguous.baselines.reserveMaxLength = true;
    contiguous.admissionReserve = 0;

    tellStage(trial.hooks, "paging: contiguous reservation");
    ExperimentResult result;
    DeviceSide before(trial.path, contiguous, trial.hooks);
    const ModelInfo &info = before.info();
    const auto list = shareGptRequests(requests, info.effective.maxModelLen, info.vocabSize, trial.seed);
    const LoadReport first = before.run(list);
    tellStage(trial.hooks, "paging: pages");
    DeviceSide after(trial.path, config, trial.hooks);
    const LoadReport second = after.run(list);

    const double sequences = static_cast<double>(*second.serving.maxRunning) / *first.serving.maxRunning;
    result.claim = "pages hold at least 4 times the sequences in the same KV bytes, at 4.8 times the throughput";
    result.baseline = servingFigures(first);
    result.treatment = servingFigures(second);
    result.ratio = second.outputThroughput / first.outputThroughput;
    result.holds = sequences >= 4 && result.ratio >= 4.8;
    result.bound = computeBound(first, second);
    result.config = describeDevice(after.info(), trial.seed);
    result.config.emplace_back("sequences_ratio", sequences);
    result.config.emplace_back("requests", std::int64_t{requests});
    result.config.emplace_back("workload", "ShareGPT lengths, all at once");
    result.config.emplace_back("mean_prompt_tokens", static_cast<double>(second.inputTokens) / requests);
    result.config.emplace_back("mean_output_tokens", static_cast<double>(second.outputTokens) / requests);
    return result;
}

ExperimentResult dynamicBatching(const DeviceTrial &trial)
{
    constexpr int requests = 48;
    EngineConfig config = servingConfig(trial);
    config.limits.maxNumSeqs = 8;
    EngineConfig fixed = config;
    fixed.baselines.staticBatches = true;

    tellStage(trial.hooks, "dynamic-batching: static batches");
    DeviceSide before(trial.path, fixed, trial.hooks);
    const double mean = std::min(32.0, before.info().effective.maxModelLen / 16.0);
    const auto list = shortRequests(requests, mean, mean, before.info().vocabSize, trial.seed);
    const LoadReport first = before.run(list);
    tellStage(trial.hooks, "dynamic-batching: continuous batching");
    DeviceSide after(trial.path, config, trial.hooks);
    const LoadReport second = after.run(list);

    ExperimentResult result;
    result.claim = "at a P95 of the latency that is no higher, continuous batching serves at least 3 times as much";
    result.baseline = servingFigures(first);
    result.treatment = servingFigures(second);
    result.ratio = second.outputThroughput / first.outputThroughput;
    result.holds = result.ratio >= 3 && second.e2eMs->p95 <= first.e2eMs->p95;
    result.bound = "arithmetic: a static batch with empty places makes shorter steps on this processor, so that they "
                   "cost little; all requests were there from the start";
    result.config = describeDevice(after.info(), trial.seed);
    result.config.emplace_back("requests", std::int64_t{requests});
    result.config.emplace_back("mean_prompt_tokens", mean);
    result.config.emplace_back("mean_output_tokens", mean);
    return result;
}

ExperimentResult overload(const DeviceTrial &trial)
{
    constexpr int clients = 150;
    constexpr double limitMs = 800;
    EngineConfig open = servingConfig(trial);
    open.limits.maxNumSeqs = 8;
    EngineConfig shaped = open;
    shaped.maxNumQueuedReqs = 4;

    tellStage(trial.hooks, "overload: unbounded queue");
    DeviceSide before(trial.path, open, trial.hooks);
    const auto list = shortRequests(clients, 24, 12, before.info().vocabSize, trial.seed);
    const LoadReport first = before.run(list);
    tellStage(trial.hooks, "overload: bounded queue");
    DeviceSide after(trial.path, shaped, trial.hooks);
    const LoadReport second = after.run(list);

    const auto figures = [](const LoadReport &report) {
        Figures all = servingFigures(report);
        all.emplace_back("accepted", std::int64_t{report.completed});
        all.emplace_back("rejected", std::int64_t{report.rejected});
        all.emplace_back("reject_p99_ms", report.rejectMs ? report.rejectMs->p99 : 0.0);
        return all;
    };
    ExperimentResult result;
    result.claim = "when 150 clients come at once the P95 of the accepted stays at most 0.8 s, the rest is refused at "
                   "once";
    result.baseline = figures(first);
    result.treatment = figures(second);
    result.ratio = first.e2eMs->p95 / second.e2eMs->p95;
    result.holds = second.e2eMs->p95 <= limitMs && second.rejectMs && second.rejectMs->p99 <= limitMs;
    result.bound = "the time that this processor needs for the 8 requests that run and the 4 that wait";
    result.config = describeDevice(after.info(), trial.seed);
    result.config.emplace_back("clients", std::int64_t{clients});
    result.config.emplace_back("max_num_queued_reqs", std::int64_t{4});
    return result;
}

} // namespace engine::device
