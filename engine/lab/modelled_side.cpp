// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/lab/modelled_side.h"

#include "engine/lab/kv_usage.h"

#include <algorithm>
#include <utility>

namespace engine {

ModelledSetup defaultSetup(const ModelledTarget &target)
{
    ModelledSetup setup;
    setup.maxModelLen = std::min(target.shape.contextLength, modelledMaxLen);
    setup.config.limits = {modelledMaxSeqs, 2048};
    setup.config.kv.blockTokens = 16;
    setup.config.kv.numBlocks =
        static_cast<int>(kvTokensThatFit(target, modelledReserve) / setup.config.kv.blockTokens);
    setup.config.kv.prefixCaching = false;
    return setup;
}

LoadReport runSide(const ModelledTarget &target, const ModelledSetup &setup, std::span<const ModelledRequest> requests,
                   const ModelledFollowUp &followUp)
{
    KvUsage usage;
    ServingFigures figures;
    StepStats last;
    const auto cost = [&target](const StepWork &work) { return stepSeconds(target.device, target.shape, work); };
    const auto onStep = [&](const StepStats &step) {
        usage.add(step);
        figures.maxRunning = std::max(figures.maxRunning.value_or(0), step.running);
        figures.itlMs.insert(figures.itlMs.end(), step.itlMs.begin(), step.itlMs.end());
        last = step;
    };
    std::vector<LoadSample> samples;
    for (const ModelledOutcome &outcome : runModelled(setup, requests, cost, onStep, followUp))
        samples.push_back(sampleOf(outcome.finished, outcome.request.arrival, outcome.endedAt));
    figures.preemptions = last.preemptions;
    if (last.prefixQueryTokens > 0)
        figures.prefixHitRate = static_cast<double>(last.prefixHitTokens) / static_cast<double>(last.prefixQueryTokens);
    figures.kvPeakUsage = usage.peak();
    figures.kvWaste = usage.waste();
    return summarize(samples, std::move(figures), {});
}

Figures describeTarget(const ModelledTarget &target, const ModelledSetup &setup, std::uint64_t seed)
{
    return {{"device", "modelled " + target.device.name + " x " + std::to_string(target.device.devices)},
            {"model", target.shape.name},
            {"bandwidth_gbps", target.device.bytesPerSecond / 1e9},
            {"bandwidth_share", target.device.bandwidthShare},
            {"tflops", target.device.flopsPerSecond / 1e12},
            {"flops_share", target.device.flopsShare},
            {"max_model_len", std::int64_t{setup.maxModelLen}},
            {"max_num_seqs", std::int64_t{setup.config.limits.maxNumSeqs}},
            {"max_num_batched_tokens", std::int64_t{setup.config.limits.maxNumBatchedTokens}},
            {"kv_tokens", std::int64_t{setup.config.kv.numBlocks} * setup.config.kv.blockTokens},
            {"block_size", std::int64_t{setup.config.kv.blockTokens}},
            {"seed", static_cast<std::int64_t>(seed)}};
}

} // namespace engine
