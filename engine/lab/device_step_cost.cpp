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

constexpr int fewRows = 8;
constexpr int manyRows = 128;
constexpr int shortDepth = 16;
constexpr double tolerance = 0.20;

/// A kind of step: `rows` sequences of `tokens` new tokens each behind `depth` others. `best` is its quickest step.
struct StepKind {
    std::string name;
    int rows = 1;
    int tokens = 1;
    int depth = 0;
    double best = std::numeric_limits<double>::max();
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

/// One run that makes steps of this kind. Returns whether it made a quicker one than all before, by a fiftieth.
bool measure(DeviceSide &side, StepKind &kind, std::uint64_t seed, const DeviceTrial &trial)
{
    constexpr int decodes = 12;
    const bool decode = kind.tokens == 1;
    const int prompt = std::max(decode ? kind.depth - decodes / 2 : kind.tokens, 1);
    const int output = decode ? decodes : 1;
    static_cast<void>(side.engine().takeSteps());
    std::vector<Request> requests;
    for (const LoadRequest &one :
         makeRandomRequests({kind.rows, {prompt, prompt}, {output, output}, 0, side.info().vocabSize, seed}))
        requests.push_back(requestOf(one));
    side.runner().run(std::move(requests), trial.hooks.stop, {}, {});
    const double before = kind.best;
    for (const StepStats &step : side.engine().takeSteps()) {
        const bool same = decode ? step.prefillTokens == 0 && step.decodeTokens == kind.rows
                                 : step.decodeTokens == 0 && step.prefillTokens == kind.rows * kind.tokens;
        if (same)
            kind.best = std::min(kind.best, step.duration);
    }
    if (kind.best == std::numeric_limits<double>::max())
        throw Error(ErrorCode::Internal, "step-cost: no step of the kind \"" + kind.name + "\" was made");
    return kind.best < 0.98 * before;
}

/// All kinds in turn, round by round, as other work on this machine comes and goes; until two rounds have made hardly
/// any of them quicker.
void measureAll(DeviceSide &side, std::vector<StepKind> &kinds, const DeviceTrial &trial)
{
    constexpr int leastRounds = 2;
    constexpr int usualRounds = 5;
    constexpr auto mostTime = std::chrono::seconds(45);
    const auto start = std::chrono::steady_clock::now();
    const auto inTime = [&] { return std::chrono::steady_clock::now() - start < mostTime; };
    int quiet = 0;
    for (int round = 0; round < leastRounds || (inTime() && (round < usualRounds || quiet < 2)); ++round) {
        tellStage(trial.hooks, "step-cost: round " + std::to_string(round + 1));
        int quicker = 0;
        for (StepKind &kind : kinds) {
            checkStop(trial.hooks);
            quicker += measure(side, kind, trial.seed + static_cast<std::uint64_t>(round), trial) ? 1 : 0;
        }
        quiet = quicker <= 1 ? quiet + 1 : 0;
    }
}

/// What this processor reaches, out of four kinds of steps that are not predicted: one and several sequences decode,
/// one decodes behind many tokens, a prompt.
class Roofs {
public:
    Roofs(const ModelShape &shape, const StepKind &one, const StepKind &few, const StepKind &deep,
          const StepKind &prompt)
        : m_shape(shape)
    {
        const double layers = 2 * shape.layerParameters();
        const double head = 2 * shape.headParameters();
        m_roof.name = "this processor";
        m_roof.overlaps = false; // a core that waits for weights does not multiply
        m_few = (fewRows - 1) * (layers + head) / positive(few.best - one.best);
        const double reading = std::max(one.best - (layers + head) / m_few, 0.01 * one.best);
        m_roof.bytesPerSecond = shape.weightBytesEach * (shape.layerParameters() + shape.headParameters()) / reading;
        const StepWork work = workOf(prompt);
        const double scores = 4 * work.scorePairs * shape.layers * shape.heads * shape.headDim;
        m_many = (layers * manyRows + head + scores) / positive(prompt.best - reading);
        const double pairs = deep.depth - one.depth;
        const double products = 4 * pairs * shape.layers * shape.heads * shape.headDim / m_few;
        const double asWeights = pairs * shape.kvBytesPerToken() / m_roof.bytesPerSecond;
        m_roof.cacheShare = std::clamp(asWeights / positive(deep.best - one.best - products), 0.05, 1.0);
    }

    /// Kernels reach more with many rows than with few; between, by the logarithm of their number.
    [[nodiscard]] double predict(const StepKind &kind) const
    {
        const StepWork work = workOf(kind);
        const double place =
            std::log(static_cast<double>(work.tokens) / fewRows) / std::log(double{manyRows} / fewRows);
        DeviceRoof roof = m_roof;
        roof.flopsPerSecond = m_few * std::pow(m_many / m_few, std::clamp(place, 0.0, 1.0));
        return stepSeconds(roof, m_shape, work);
    }

    void describe(Figures &config) const
    {
        config.emplace_back("gflops_reached_few_rows", m_few / 1e9);
        config.emplace_back("gflops_reached_many_rows", m_many / 1e9);
        config.emplace_back("gbps_reached", m_roof.bytesPerSecond / 1e9);
        config.emplace_back("cache_share", m_roof.cacheShare);
    }

private:
    [[nodiscard]] static double positive(double seconds) { return std::max(seconds, 1e-9); }

    ModelShape m_shape;
    DeviceRoof m_roof;
    double m_few = 0;  // operations a second
    double m_many = 0; // the same
};

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
    tellStage(trial.hooks, "step-cost: loading");
    DeviceSide side(trial.path, config, trial.hooks);
    const ModelShape shape = shapeOf(trial, side.info());
    const int deep = std::min(512, side.info().effective.maxModelLen / 2);
    constexpr std::size_t calibrating = 4; // the first ones; the others are predicted
    std::vector<StepKind> kinds{{"decode_1", 1, 1, shortDepth},
                                {"decode_8", fewRows, 1, shortDepth},
                                {"decode_1_deep", 1, 1, deep},
                                {"prompt_128", 1, manyRows, 0},
                                {"decode_2", 2, 1, shortDepth},
                                {"decode_4", 4, 1, shortDepth},
                                {"decode_16", 16, 1, shortDepth},
                                {"decode_4_deep", 4, 1, deep},
                                {"decode_2_half_deep", 2, 1, deep / 2},
                                {"prompt_32", 1, 32, 0},
                                {"prompt_64", 1, 64, 0},
                                {"prompt_256", 1, std::min(256, deep), 0}};
    measureAll(side, kinds, trial);
    const Roofs roofs(shape, kinds[0], kinds[1], kinds[2], kinds[3]);
    ExperimentResult result;
    double worst = 0;
    double sum = 0;
    for (std::size_t i = calibrating; i < kinds.size(); ++i) {
        const double predicted = roofs.predict(kinds[i]);
        result.baseline.emplace_back(kinds[i].name + "_ms", predicted * 1e3);
        result.treatment.emplace_back(kinds[i].name + "_ms", kinds[i].best * 1e3);
        worst = std::max(worst, std::abs(predicted / kinds[i].best - 1));
        sum += predicted / kinds[i].best;
    }
    result.claim = "the same cost model with this processor's roofs predicts its steps within 20 %";
    result.ratio = sum / static_cast<double>(kinds.size() - calibrating);
    result.holds = worst <= tolerance;
    result.bound =
        "between the calibrated steps the shares of the roofs that kernels reach are only interpolated, and whatever "
        "else runs on this machine lengthens steps";
    result.config = describeDevice(side.info(), trial.seed);
    for (std::size_t i = 0; i < calibrating; ++i)
        result.config.emplace_back("calibrated_" + kinds[i].name + "_ms", kinds[i].best * 1e3);
    roofs.describe(result.config);
    result.config.emplace_back("read_gbps_measured", measureReadBandwidth(side.info().effective.threads) / 1e9);
    result.config.emplace_back("worst_error", worst);
    return result;
}

} // namespace engine::device
