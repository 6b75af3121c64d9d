// SPDX-License-Identifier: GPL-3.0-or-later
// step-cost: the roofline of this machine against measured steps.
#include "engine/api/probe.h"
#include "engine/lab/bench.h"
#include "engine/lab/device_experiments.h"
#include "engine/lab/load_workload.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

namespace engine::device {
namespace {

constexpr int calibrationTokens = 128;
constexpr int shortDepth = 16;
constexpr double tolerance = 0.20;

/// A kind of step: `rows` sequences of `tokens` new tokens each behind `depth` others.
struct StepKind {
    std::string name;
    int rows = 1;
    int tokens = 1;
    int depth = 0;
};

StepWork workOf(const StepKind &kind)
{
    StepWork work;
    work.tokens = kind.rows * kind.tokens;
    work.logitRows = kind.rows;
    work.cacheTokens = static_cast<double>(kind.rows) * (kind.depth + kind.tokens);
    work.scorePairs = work.tokens * (kind.depth + (kind.tokens + 1) / 2.0);
    return work;
}

/// The quickest of the steps that have exactly this work.
double measure(DeviceSide &side, const StepKind &kind, const DeviceTrial &trial)
{
    constexpr int decodes = 12;
    constexpr std::uint64_t leastRepetitions = 3;
    constexpr auto leastTime = std::chrono::seconds(2); // other work on this machine comes and goes
    const bool decode = kind.tokens == 1;
    double best = std::numeric_limits<double>::max();
    const auto start = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < leastRepetitions || std::chrono::steady_clock::now() - start < leastTime; ++i) {
        checkStop(trial.hooks);
        const int prompt = decode ? kind.depth - decodes / 2 : kind.tokens;
        const auto list = makeRandomRequests({kind.rows,
                                              {std::max(prompt, 1), std::max(prompt, 1)},
                                              {decode ? decodes : 1, decode ? decodes : 1},
                                              0,
                                              side.info().vocabSize,
                                              trial.seed + i});
        static_cast<void>(side.engine().takeSteps());
        std::vector<Request> requests;
        for (const LoadRequest &one : list)
            requests.push_back(requestOf(one));
        side.runner().run(std::move(requests), trial.hooks.stop, {}, {});
        for (const StepStats &step : side.engine().takeSteps()) {
            const bool same = decode ? step.prefillTokens == 0 && step.decodeTokens == kind.rows
                                     : step.decodeTokens == 0 && step.prefillTokens == kind.rows * kind.tokens;
            if (same)
                best = std::min(best, step.duration);
        }
    }
    if (best == std::numeric_limits<double>::max())
        throw Error(ErrorCode::Internal, "step-cost: no step of the kind \"" + kind.name + "\" was made");
    return best;
}

/// The two roofs that the model reaches here, out of one step each: a decode of one sequence, which mostly reads, and a
/// prompt, which mostly multiplies.
DeviceRoof calibrate(const ModelShape &shape, double decodeSeconds, double promptSeconds)
{
    const double layers = 2 * shape.layerParameters();
    const double head = 2 * shape.headParameters();
    DeviceRoof roof;
    roof.name = "this processor";
    roof.overlaps = false; // a core that waits for weights does not multiply
    roof.flopsPerSecond = layers * (calibrationTokens - 1) / std::max(promptSeconds - decodeSeconds, 1e-9);
    const double reading = decodeSeconds - (layers + head) / roof.flopsPerSecond;
    const double bytes = shape.weightBytesEach * (shape.layerParameters() + shape.headParameters());
    roof.bytesPerSecond = bytes / std::max(reading, 0.01 * decodeSeconds);
    return roof;
}

ModelShape shapeOf(const DeviceTrial &trial, const ModelInfo &info)
{
    ModelShape shape = makeAttentionProbe(trial.path, trial.config)->shape();
    const double dense = shape.layerParameters() + shape.headParameters();
    const auto actual = static_cast<double>(info.parameters);
    const double untied = dense + shape.headParameters();
    if (std::min(std::abs(dense - actual), std::abs(untied - actual)) > 0.05 * actual)
        throw Error(ErrorCode::Refused,
                    trial.path + ": found " + std::to_string(info.parameters) + " parameters, wanted the "
                        + std::to_string(static_cast<std::int64_t>(dense))
                        + " of a dense model with gated feed-forward layers, whose steps can be predicted");
    shape.weightBytesEach = static_cast<double>(info.bytesPerToken) / dense;
    shape.kvBytesEach =
        static_cast<double>(info.kvBytesPerToken) / (2.0 * shape.layers * shape.kvHeads * shape.headDim);
    return shape;
}

} // namespace

ExperimentResult stepCost(const DeviceTrial &trial)
{
    EngineConfig config = trial.config;
    config.kv.prefixCaching = false;
    config.kv.numBlocks = 0;
    config.kv.budgetBytes = 0;
    config.limits = {32, 1024};
    config.baselines.wholePrompts = true; // steps of the sizes asked for
    DeviceSide side(trial.path, config, trial.hooks);
    const ModelShape shape = shapeOf(trial, side.info());
    const StepKind decodeKind{"decode", 1, 1, shortDepth};
    const StepKind promptKind{"prompt", 1, calibrationTokens, 0};
    tellStage(trial.hooks, "step-cost: roofs");
    double decode = measure(side, decodeKind, trial);
    double prompt = measure(side, promptKind, trial);

    const int deep = std::min(512, side.info().effective.maxModelLen / 2);
    const std::vector<StepKind> kinds{
        {"decode_2", 2, 1, shortDepth},   {"decode_4", 4, 1, shortDepth}, {"decode_8", 8, 1, shortDepth},
        {"decode_16", 16, 1, shortDepth}, {"decode_1_deep", 1, 1, deep},  {"decode_4_deep", 4, 1, deep},
        {"prompt_32", 1, 32, 0},          {"prompt_64", 1, 64, 0},        {"prompt_256", 1, std::min(256, deep), 0}};
    ExperimentResult result;
    std::vector<double> measured;
    for (const StepKind &kind : kinds) {
        tellStage(trial.hooks, "step-cost: " + kind.name);
        measured.push_back(measure(side, kind, trial));
    }
    // Again, as the first steps of a model find its weights and this machine cold.
    decode = std::min(decode, measure(side, decodeKind, trial));
    prompt = std::min(prompt, measure(side, promptKind, trial));
    const DeviceRoof roof = calibrate(shape, decode, prompt);
    double worst = 0;
    double sum = 0;
    for (std::size_t i = 0; i < kinds.size(); ++i) {
        const double predicted = stepSeconds(roof, shape, workOf(kinds[i]));
        result.baseline.emplace_back(kinds[i].name + "_ms", predicted * 1e3);
        result.treatment.emplace_back(kinds[i].name + "_ms", measured[i] * 1e3);
        worst = std::max(worst, std::abs(predicted / measured[i] - 1));
        sum += predicted / measured[i];
    }
    result.claim = "the same cost model with this processor's roofs predicts its steps within 20 %";
    result.ratio = sum / static_cast<double>(kinds.size());
    result.holds = worst <= tolerance;
    result.bound =
        "kernels reach other shares of the roofs with few rows than with many, and whatever else runs on this "
        "machine lengthens steps";
    result.config = describeDevice(side.info(), trial.seed);
    result.config.emplace_back("gflops_reached", roof.flopsPerSecond / 1e9);
    result.config.emplace_back("gbps_reached", roof.bytesPerSecond / 1e9);
    result.config.emplace_back("read_gbps_measured", measureReadBandwidth(side.info().effective.threads) / 1e9);
    result.config.emplace_back("worst_error", worst);
    return result;
}

} // namespace engine::device
