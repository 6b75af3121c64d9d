// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/lab/modelled_experiments.h"

#include <algorithm>

namespace engine::modelled {
namespace {

constexpr int decodeBatch = 32;

/// As deep as a batch with a key head for each query head fits beside the weights.
int deepestDepth(const ModelledTarget &target)
{
    ModelledTarget widest = target;
    widest.shape.kvHeads = target.shape.heads;
    return static_cast<int>(kvTokensThatFit(widest, 0) / decodeBatch);
}

double decodeSeconds(const ModelledTarget &target, const ModelShape &shape)
{
    const int decodeDepth = deepestDepth(target);
    StepWork work;
    work.tokens = decodeBatch;
    work.logitRows = decodeBatch;
    work.cacheTokens = static_cast<double>(decodeBatch) * decodeDepth;
    work.scorePairs = work.cacheTokens;
    return stepSeconds(target.device, shape, work);
}

Figures headFigures(const ModelledTarget &target, int kvHeads)
{
    ModelShape shape = target.shape;
    shape.kvHeads = kvHeads;
    const double seconds = decodeSeconds(target, shape);
    return {{"kv_heads", std::int64_t{kvHeads}},
            {"kv_bytes_per_token", shape.kvBytesPerToken()},
            {"decode_tokens_per_second", decodeBatch / seconds}};
}

/// Seconds of one layer's attention over a prompt of `tokens`. `matrixPasses` is how often the scores go to memory or
/// come from it.
double attentionSeconds(const ModelledTarget &target, double tokens, int matrixPasses)
{
    const ModelShape &shape = target.shape;
    const DeviceRoof &device = target.device;
    const double bandwidth = device.bytesPerSecond * device.bandwidthShare * device.devices;
    const double flops = device.flopsPerSecond * device.flopsShare * device.devices;
    const double pairs = matrixPasses > 0 ? tokens * tokens : tokens * (tokens + 1) / 2; // whole matrix or lower half
    const double work = 4.0 * pairs * shape.heads * shape.headDim;
    const double inAndOut = 2.0 * tokens * shape.headDim * (2.0 * shape.heads + 2.0 * shape.kvHeads);
    const double matrix = matrixPasses * 2.0 * tokens * tokens * shape.heads;
    return matrixPasses > 0 ? work / flops + (inAndOut + matrix) / bandwidth
                            : std::max(work / flops, inAndOut / bandwidth);
}

double promptMemoryBytes(const ModelledTarget &target, double tokens, bool materialised)
{
    const double matrices = materialised ? 2 * 2.0 * tokens * tokens * target.shape.heads : 0; // scores and weights
    return target.shape.weightBytes() + tokens * target.shape.kvBytesPerToken() + matrices;
}

} // namespace

ExperimentResult groupedQueries(const Trial &trial)
{
    const int heads = trial.target.shape.heads;
    ExperimentResult result;
    result.claim = "at equal query heads, one key head for eight query heads decodes at least twice as fast as one for "
                   "each, from an eighth of the KV bytes";
    result.baseline = headFigures(trial.target, heads);
    result.treatment = headFigures(trial.target, std::max(heads / 8, 1));
    const double each = std::get<double>(result.baseline[2].second);
    const double grouped = std::get<double>(result.treatment[2].second);
    const Figures single = headFigures(trial.target, 1);
    const double one = std::get<double>(single[2].second);
    result.ratio = grouped / each;
    result.holds = result.ratio >= 2;
    result.bound = "reading the weights, which grouping leaves as they are";
    result.config = describeTarget(trial.target, defaultSetup(trial.target), trial.seed);
    result.config.emplace_back("query_heads", std::int64_t{heads});
    result.config.emplace_back("batch", std::int64_t{decodeBatch});
    result.config.emplace_back("depth", std::int64_t{deepestDepth(trial.target)});
    result.config.emplace_back("mqa_kv_bytes_per_token", single[1].second);
    result.config.emplace_back("mqa_decode_tokens_per_second", one);
    return result;
}

ExperimentResult flashAttention(const Trial &trial)
{
    constexpr int passes = 4; // scores written, read by the softmax, written, read by the second product
    constexpr double context = 8192;
    ExperimentResult result;
    result.claim = "tiles with an online softmax are at least 3.2 times as fast as the score matrix and save at least "
                   "22 % of the memory";
    for (const double tokens : {1024.0, 2048.0, 4096.0, context}) {
        const std::string suffix = "_" + std::to_string(static_cast<int>(tokens));
        result.baseline.emplace_back("layer_ms" + suffix, 1e3 * attentionSeconds(trial.target, tokens, passes));
        result.baseline.emplace_back("memory_bytes" + suffix, promptMemoryBytes(trial.target, tokens, true));
        result.treatment.emplace_back("layer_ms" + suffix, 1e3 * attentionSeconds(trial.target, tokens, 0));
        result.treatment.emplace_back("memory_bytes" + suffix, promptMemoryBytes(trial.target, tokens, false));
    }
    result.ratio = attentionSeconds(trial.target, context, passes) / attentionSeconds(trial.target, context, 0);
    const double saved =
        1 - promptMemoryBytes(trial.target, context, false) / promptMemoryBytes(trial.target, context, true);
    result.holds = result.ratio >= 3.2 && saved >= 0.22;
    result.bound =
        "arithmetic once the scores stay on the chip; memory is that of one layer's scores and their softmax beside "
        "weights and cache";
    result.config = describeTarget(trial.target, defaultSetup(trial.target), trial.seed);
    result.config.emplace_back("context", static_cast<std::int64_t>(context));
    result.config.emplace_back("memory_saved", saved);
    return result;
}

} // namespace engine::modelled
