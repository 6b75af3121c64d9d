// SPDX-License-Identifier: GPL-3.0-or-later
// flash-attention and gqa on this machine.
#include "engine/api/probe.h"
#include "engine/lab/device_experiments.h"
#include "engine/lab/load_workload.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>

namespace engine::device {
namespace {

/// A folder that goes with this object.
class TemporaryFolder {
public:
    TemporaryFolder()
    {
        std::string pattern = (std::filesystem::temp_directory_path() / "lathe-gqa-XXXXXX").string();
        if (!mkdtemp(pattern.data()))
            throw Error(ErrorCode::IoError, pattern + ": a folder for synthetic weights could not be made");
        m_path = pattern;
    }
    ~TemporaryFolder()
    {
        std::error_code ignored;
        std::filesystem::remove_all(m_path, ignored);
    }
    TemporaryFolder(const TemporaryFolder &) = delete;
    TemporaryFolder &operator=(const TemporaryFolder &) = delete;
    [[nodiscard]] const std::filesystem::path &path() const { return m_path; }

private:
    std::filesystem::path m_path;
};

/// What gqa runs.
struct HeadsWork {
    ModelShape shape;
    int batch = 0;
    int depth = 0;
    int tokens = 0;
};

/// An emulated device, which tells nothing about speed, shows that it works in a minute.
HeadsWork headsWorkFor(const std::string &device)
{
    if (device == "simt")
        return {{"", 1, 64, 16, 16, 64, 128, 128, 64, 2, 2}, 2, 24, 3};
    return {{"", 4, 512, 16, 16, 64, 1024, 512, 1024, 2, 2}, 4, 512, 24};
}

/// The quickest step in which all sequences decode.
double decodeSeconds(DeviceSide &side, const HeadsWork &work, std::uint64_t seed)
{
    static_cast<void>(side.engine().takeSteps());
    const auto list = makeRandomRequests(
        {work.batch, {work.depth, work.depth}, {work.tokens, work.tokens}, 0, side.info().vocabSize, seed});
    std::vector<Request> requests;
    for (const LoadRequest &one : list)
        requests.push_back(requestOf(one));
    std::string error;
    side.runner().run(std::move(requests), {}, {}, [&](std::size_t, const RequestResult &result) {
        if (result.finished.reason == FinishReason::Failed)
            error = result.finished.error;
    });
    if (!error.empty())
        throw Error(ErrorCode::Refused, "experiment: a request failed: " + error);
    double best = std::numeric_limits<double>::max();
    for (const StepStats &step : side.engine().takeSteps())
        if (step.prefillTokens == 0 && step.decodeTokens == work.batch)
            best = std::min(best, step.duration);
    return best;
}

struct HeadsRun {
    int kvHeads = 0;
    std::size_t kvBytesPerToken = 0;
    double tokensPerSecond = 0;
    ModelInfo info;
};

HeadsRun runHeads(const DeviceTrial &trial, const TemporaryFolder &folder, const HeadsWork &work, int kvHeads)
{
    ModelShape shape = work.shape;
    tellStage(trial.hooks, "gqa: " + std::to_string(kvHeads) + " key heads");
    shape.kvHeads = kvHeads;
    shape.name = "synthetic, " + std::to_string(kvHeads) + " key heads";
    const std::string path = (folder.path() / (std::to_string(kvHeads) + ".gguf")).string();
    writeSyntheticModel(path, shape, trial.seed);
    EngineConfig config = trial.config;
    config.maxModelLen = shape.contextLength;
    config.limits = {work.batch, 512};
    config.kv.numBlocks = 0;
    config.kv.budgetBytes = 0;
    config.kv.prefixCaching = false;
    DeviceSide side(path, config, trial.hooks);
    return {kvHeads, side.info().kvBytesPerToken, work.batch / decodeSeconds(side, work, trial.seed), side.info()};
}

Figures figuresOf(const HeadsRun &run)
{
    return {{"kv_heads", std::int64_t{run.kvHeads}},
            {"kv_bytes_per_token", static_cast<std::int64_t>(run.kvBytesPerToken)},
            {"decode_tokens_per_second", run.tokensPerSecond}};
}

} // namespace

ExperimentResult groupedQueries(const DeviceTrial &trial)
{
    const HeadsWork work = headsWorkFor(trial.config.device);
    const TemporaryFolder folder;
    const HeadsRun each = runHeads(trial, folder, work, work.shape.heads);
    const HeadsRun grouped = runHeads(trial, folder, work, work.shape.heads / 8);
    const HeadsRun one = runHeads(trial, folder, work, 1);

    ExperimentResult result;
    result.claim = "at equal query heads, one key head for eight query heads decodes at least twice as fast as one for "
                   "each, from an eighth of the KV bytes";
    result.baseline = figuresOf(each);
    result.treatment = figuresOf(grouped);
    result.ratio = grouped.tokensPerSecond / each.tokensPerSecond;
    result.holds = result.ratio >= 2 && grouped.kvBytesPerToken * 8 == each.kvBytesPerToken;
    result.bound = "the products of the weights and the scores, which are as many whatever the key heads";
    result.config = describeDevice(grouped.info, trial.seed);
    result.config.emplace_back("query_heads", std::int64_t{work.shape.heads});
    result.config.emplace_back("batch", std::int64_t{work.batch});
    result.config.emplace_back("depth", std::int64_t{work.depth});
    result.config.emplace_back("mqa_kv_bytes_per_token", static_cast<std::int64_t>(one.kvBytesPerToken));
    result.config.emplace_back("mqa_decode_tokens_per_second", one.tokensPerSecond);
    return result;
}

ExperimentResult flashAttention(const DeviceTrial &trial)
{
    const std::unique_ptr<AttentionProbe> probe = makeAttentionProbe(trial.path, trial.config);
    const ModelShape &shape = probe->shape();
    ExperimentResult result;
    AttentionProbe::Pair first;
    AttentionProbe::Pair last;
    for (const int context : {256, 512, 1024, 2048}) {
        tellStage(trial.hooks, "flash-attention: context " + std::to_string(context));
        last = probe->measure(context, trial.seed);
        if (context == 256)
            first = last;
        const std::string suffix = "_" + std::to_string(context);
        result.baseline.emplace_back("layer_ms" + suffix, last.materialised.seconds * 1e3);
        result.baseline.emplace_back("scratch_bytes" + suffix,
                                     static_cast<std::int64_t>(last.materialised.scratchBytes));
        result.treatment.emplace_back("layer_ms" + suffix, last.tiled.seconds * 1e3);
        result.treatment.emplace_back("scratch_bytes" + suffix, static_cast<std::int64_t>(last.tiled.scratchBytes));
    }
    constexpr std::size_t flatBytes = 8U << 20U; // tiles of all threads, and what the system rounds to pages
    const bool flat = last.tiled.scratchBytes <= first.tiled.scratchBytes + flatBytes;
    const double saved = last.materialised.scratchBytes > 0
        ? 1.0 - static_cast<double>(last.tiled.scratchBytes) / static_cast<double>(last.materialised.scratchBytes)
        : 0.0;
    result.claim = "tiles with an online softmax are at least 3.2 times as fast as the score matrix, and their memory "
                   "does not grow with the context";
    result.ratio = last.materialised.seconds / last.tiled.seconds;
    result.holds = result.ratio >= 3.2 && flat;
    result.bound = "arithmetic: this processor's caches and memory keep up with the scores better than a GPU's memory "
                   "does, so that the products decide";
    result.config = {{"device", "cpu"},
                     {"threads", std::int64_t{probe->threads()}},
                     {"heads", std::int64_t{shape.heads}},
                     {"kv_heads", std::int64_t{shape.kvHeads}},
                     {"head_dim", std::int64_t{shape.headDim}},
                     {"memory_flat", flat ? "yes" : "no"},
                     {"scratch_saved", saved},
                     {"max_difference", last.tiled.maxDifference},
                     {"seed", static_cast<std::int64_t>(trial.seed)}};
    return result;
}

} // namespace engine::device
