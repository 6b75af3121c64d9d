// SPDX-License-Identifier: GPL-3.0-or-later
// prefix-cache and chunked-prefill on this machine.
#include "engine/api/modelled.h"
#include "engine/lab/device_experiments.h"
#include "engine/lab/load_workload.h"

#include <algorithm>
#include <ctime>
#include <limits>

namespace engine::device {
namespace {

EngineConfig prefillConfig(const DeviceTrial &trial)
{
    EngineConfig config = trial.config;
    config.kv.budgetBytes = 0;
    config.kv.numBlocks = 0;
    config.maxModelLen = trial.config.maxModelLen > 0 ? std::min(trial.config.maxModelLen, mostModelLen) : mostModelLen;
    return config;
}

/// Processor seconds a prompt token that the cache takes where nothing is ever found in it: looking up, hashing and
/// keeping, in the real scheduler without a model. Of each side the quickest of several runs in turn, as whatever else
/// the machine does only makes them longer.
double cacheSecondsPerToken(int promptTokens)
{
    constexpr int rounds = 5;
    constexpr int prompts = 200;
    ModelledSetup setup;
    setup.maxModelLen = promptTokens + 16;
    setup.config.kv.numBlocks = prompts * (promptTokens / 16 + 2) / 2; // so that old content is thrown out, too
    const std::vector<ModelledRequest> requests(prompts, {0, promptTokens, 1, 0, 0});
    const auto processorSeconds = [&](bool caching) {
        setup.config.kv.prefixCaching = caching;
        const std::clock_t start = std::clock();
        static_cast<void>(runModelled(setup, requests, [](const StepWork &) { return 1.0; }));
        return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    };
    double without = std::numeric_limits<double>::max();
    double with = without;
    for (int round = 0; round < rounds; ++round) {
        without = std::min(without, processorSeconds(false));
        with = std::min(with, processorSeconds(true));
    }
    return std::max(with - without, 0.0) / (double{prompts} * promptTokens);
}

/// What a prompt token takes in an engine without a cache; the quickest prompt counts.
double computeSecondsPerToken(DeviceSide &plain, int promptTokens, std::uint64_t seed)
{
    constexpr int prompts = 6;
    const auto list =
        makeRandomRequests({prompts, {promptTokens, promptTokens}, {1, 1}, 0, plain.info().vocabSize, seed + 1000});
    double best = std::numeric_limits<double>::max();
    for (const LoadRequest &request : list) {
        const LoadReport report = plain.run(std::span(&request, 1));
        best = std::min(best, report.ttftMs->mean - report.queueMs->mean);
    }
    return best / 1e3 / promptTokens;
}

} // namespace

ExperimentResult prefixCache(const DeviceTrial &trial)
{
    constexpr int requests = 12;
    EngineConfig plainConfig = prefillConfig(trial);
    plainConfig.kv.prefixCaching = false;
    EngineConfig cachedConfig = plainConfig;
    cachedConfig.kv.prefixCaching = true;

    DeviceSide plain(trial.path, plainConfig, trial.hooks);
    DeviceSide cached(trial.path, cachedConfig, trial.hooks);
    const int shared = std::min(384, plain.info().effective.maxModelLen / 2) / 16 * 16;
    const std::vector<LoadRequest> list =
        makeRandomRequests({requests, {16, 32}, {4, 8}, shared, plain.info().vocabSize, trial.seed});
    const LoadOptions oneByOne{1, 0, {}, 0};
    tellStage(trial.hooks, "prefix-cache: every prompt in full");
    const LoadReport first = plain.run(list, oneByOne);
    tellStage(trial.hooks, "prefix-cache: shared prefix computed once");
    const LoadReport second = cached.run(list, oneByOne);
    tellStage(trial.hooks, "prefix-cache: overhead without reuse");
    const double compute = computeSecondsPerToken(plain, shared, trial.seed);
    const double bookkeeping = cacheSecondsPerToken(shared);
    const double overhead = bookkeeping / compute;

    const auto figures = [](const LoadReport &report) {
        return Figures{{"ttft_mean_ms", report.ttftMs->mean},
                       {"ttft_p50_ms", report.ttftMs->p50},
                       {"ttft_p95_ms", report.ttftMs->p95},
                       {"total_throughput", report.totalThroughput},
                       {"prefix_hit_rate", report.serving.prefixHitRate.value_or(0)}};
    };
    ExperimentResult result;
    result.claim = "with a shared prefix the mean time to the first token falls to a half or less, and without reuse "
                   "the cache costs less than 1 %";
    result.baseline = figures(first);
    result.treatment = figures(second);
    result.ratio = first.ttftMs->mean / second.ttftMs->mean;
    result.holds = result.ratio >= 2 && overhead < 0.01;
    result.bound = "the first request, which computes the prefix, and the tokens that each prompt has for itself";
    result.config = describeDevice(cached.info(), trial.seed);
    result.config.emplace_back("requests", std::int64_t{requests});
    result.config.emplace_back("shared_tokens", std::int64_t{shared});
    result.config.emplace_back("overhead_without_reuse", overhead);
    result.config.emplace_back("cache_us_per_token", bookkeeping * 1e6);
    result.config.emplace_back("compute_us_per_token", compute * 1e6);
    return result;
}

namespace {

struct ChatLoad {
    int chats = 4;
    int chatTokens = 200;
    int longPrompts = 4;
    int longTokens = 0;
};

/// Chats decode; after a while long prompts arrive. Gaps between tokens are those of the chats, as a long prompt asks
/// for one token only.
LoadReport runChats(DeviceSide &side, const ChatLoad &load, const DeviceTrial &trial)
{
    const int vocab = side.info().vocabSize;
    std::vector<LoadRequest> list =
        makeRandomRequests({load.chats, {16, 16}, {load.chatTokens, load.chatTokens}, 0, vocab, trial.seed});
    for (const LoadRequest &request :
         makeRandomRequests({load.longPrompts, {load.longTokens, load.longTokens}, {1, 1}, 0, vocab, trial.seed + 1}))
        list.push_back(request);
    EngineLoadTarget target(side.runner(), side.engine());
    std::vector<LoadSample> samples;
    std::size_t sent = 0;
    const auto chats = static_cast<std::size_t>(load.chats);
    constexpr std::uint64_t stepsBefore = 12; // so that all chats decode when the first long prompt comes
    for (; sent < chats; ++sent)
        target.send(sent, list[sent]);
    while (samples.size() < list.size()) {
        checkStop(trial.hooks);
        const auto longDone = static_cast<std::size_t>(
            std::ranges::count_if(samples, [](const LoadSample &one) { return one.outputTokens == 1; }));
        // One long prompt at a time.
        if (sent < list.size() && sent - chats == longDone && side.engine().totals().steps >= stepsBefore) {
            target.send(sent, list[sent]);
            ++sent;
        }
        for (auto &[index, sample] : target.wait(0.001))
            samples.push_back(std::move(sample));
    }
    return summarize(samples, target.figures(), {});
}

} // namespace

ExperimentResult chunkedPrefill(const DeviceTrial &trial)
{
    ChatLoad load;
    EngineConfig chunkedConfig = prefillConfig(trial);
    chunkedConfig.kv.prefixCaching = false;
    chunkedConfig.limits = {16, 64};
    EngineConfig wholeConfig = chunkedConfig;
    wholeConfig.limits.maxNumBatchedTokens = chunkedConfig.maxModelLen + chunkedConfig.limits.maxNumSeqs;
    wholeConfig.baselines.wholePrompts = true;

    tellStage(trial.hooks, "chunked-prefill: whole prompts");
    DeviceSide whole(trial.path, wholeConfig, trial.hooks);
    load.longTokens = std::min(1024, whole.info().effective.maxModelLen * 3 / 4);
    load.chatTokens = std::min(load.chatTokens, whole.info().effective.maxModelLen - 32);
    const LoadReport first = runChats(whole, load, trial);
    tellStage(trial.hooks, "chunked-prefill: chunks");
    DeviceSide chunked(trial.path, chunkedConfig, trial.hooks);
    const LoadReport second = runChats(chunked, load, trial);

    const auto figures = [](const LoadReport &report) {
        return Figures{{"itl_p50_ms", report.itlMs ? report.itlMs->p50 : 0.0},
                       {"itl_p99_ms", report.itlMs ? report.itlMs->p99 : 0.0},
                       {"output_throughput", report.outputThroughput},
                       {"duration_s", report.durationSeconds}};
    };
    ExperimentResult result;
    result.claim =
        "the P99 of the gaps between tokens of running chats falls to a half or less while long prompts come";
    result.baseline = figures(first);
    result.treatment = figures(second);
    result.ratio = first.itlMs && second.itlMs ? first.itlMs->p99 / second.itlMs->p99 : 0;
    result.holds = result.ratio >= 2;
    result.bound = "a step holds at most 64 tokens, so that a gap is the time of those";
    result.config = describeDevice(chunked.info(), trial.seed);
    result.config.emplace_back("chats", std::int64_t{load.chats});
    result.config.emplace_back("chat_tokens", std::int64_t{load.chatTokens});
    result.config.emplace_back("long_prompts", std::int64_t{load.longPrompts});
    result.config.emplace_back("long_prompt_tokens", std::int64_t{load.longTokens});
    return result;
}

} // namespace engine::device
