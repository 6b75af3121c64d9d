// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/lab/experiment_workloads.h"
#include "engine/lab/modelled_experiments.h"

#include <algorithm>

namespace engine::modelled {
namespace {

// Short questions and short answers, as assistants inside other programs ask for them.
constexpr int promptFrom = 64;
constexpr int promptTo = 192;
constexpr int outputFrom = 16;
constexpr int outputTo = 32;
constexpr double thinkSeconds = 10; // mean, between an answer and the next question of a client
constexpr double retrySeconds = 1;  // after a refusal
constexpr double runSeconds = 120;
constexpr int fewClients = 100;
constexpr int manyClients = 1500;
constexpr int shapedSeqs = 32; // running together, so that a token comes soon
constexpr int shapedQueue = 4; // waiting, so that a place is free soon
constexpr double limitMs = 800;

/// Clients that ask, wait for the answer, think and ask again; a refused one tries again later.
LoadReport serve(const Trial &trial, const ModelledSetup &setup, int clients)
{
    checkStop(trial.hooks);
    LabRandom random(trial.seed);
    const auto question = [&random](double at) {
        ModelledRequest request;
        request.arrival = at;
        request.promptTokens = random.integer(promptFrom, promptTo);
        request.outputTokens = random.integer(outputFrom, outputTo);
        return request;
    };
    std::vector<ModelledRequest> first;
    for (int i = 0; i < clients; ++i)
        first.push_back(question(random.uniform() * thinkSeconds));
    return runSide(trial.target, setup, first, [&](const ModelledOutcome &outcome) -> std::optional<ModelledRequest> {
        const bool refused = outcome.finished.reason == FinishReason::Failed;
        const double next = outcome.endedAt + (refused ? retrySeconds : random.exponential(thinkSeconds));
        if (next > runSeconds)
            return std::nullopt;
        return question(next);
    });
}

void addFigures(Figures &figures, const LoadReport &report, int clients)
{
    const std::string suffix = "_" + std::to_string(clients);
    figures.emplace_back("e2e_p95_ms" + suffix, report.e2eMs ? report.e2eMs->p95 : 0.0);
    figures.emplace_back("ttft_p95_ms" + suffix, report.ttftMs ? report.ttftMs->p95 : 0.0);
    figures.emplace_back("accepted" + suffix, std::int64_t{report.completed});
    figures.emplace_back("rejected" + suffix, std::int64_t{report.rejected});
    figures.emplace_back("reject_p99_ms" + suffix, report.rejectMs ? report.rejectMs->p99 : 0.0);
    figures.emplace_back("request_throughput" + suffix, report.requestThroughput);
}

} // namespace

ExperimentResult overload(const Trial &trial)
{
    ModelledSetup open = defaultSetup(trial.target);
    open.config.limits.maxNumSeqs = shapedSeqs;
    ModelledSetup shaped = open;
    shaped.config.maxNumQueuedReqs = shapedQueue;

    ExperimentResult result;
    result.claim = "from 100 to 1,500 clients the P95 of the accepted stays at most 0.8 s, the rest is refused at once";
    const LoadReport openMany = serve(trial, open, manyClients);
    const LoadReport shapedFew = serve(trial, shaped, fewClients);
    const LoadReport shapedMany = serve(trial, shaped, manyClients);
    addFigures(result.baseline, serve(trial, open, fewClients), fewClients);
    addFigures(result.baseline, openMany, manyClients);
    addFigures(result.treatment, shapedFew, fewClients);
    addFigures(result.treatment, shapedMany, manyClients);
    result.ratio = openMany.e2eMs->p95 / shapedMany.e2eMs->p95;
    // A request is looked at between two steps, so that a refusal takes a step at most.
    const bool atOnce = shapedMany.rejectMs && shapedMany.rejectMs->p99 <= limitMs / 10;
    result.holds = std::max(shapedFew.e2eMs->p95, shapedMany.e2eMs->p95) <= limitMs && atOnce;
    result.bound = "the time of " + std::to_string(outputTo) + " steps with " + std::to_string(shapedSeqs)
        + " sequences each, and the wait for one of " + std::to_string(shapedQueue) + " places";
    result.config = describeTarget(trial.target, shaped, trial.seed);
    result.config.emplace_back("max_num_queued_reqs", std::int64_t{shapedQueue});
    result.config.emplace_back("think_s", thinkSeconds);
    result.config.emplace_back("retry_s", retrySeconds);
    result.config.emplace_back("run_s", runSeconds);
    result.config.emplace_back("workload", "prompts of 64 to 192 tokens, answers of 16 to 32");
    return result;
}

} // namespace engine::modelled
