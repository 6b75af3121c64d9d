// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/lab/device_side.h"

namespace engine {

DeviceSide::DeviceSide(const std::string &path, const EngineConfig &config, const ExperimentHooks &hooks)
    : m_hooks(hooks)
    , m_engine(makeEngine())
    , m_runner(*m_engine)
    , m_info(m_runner.load(path, config, hooks.stop))
{
}

LoadReport DeviceSide::run(std::span<const LoadRequest> requests, const LoadOptions &options)
{
    EngineLoadTarget target(m_runner, *m_engine);
    LoadReport report = runLoad(target, requests, options, m_hooks.stop);
    checkStop(m_hooks);
    if (report.failed > 0)
        throw Error(ErrorCode::Refused, "experiment: a request failed: " + report.firstError);
    if (report.completed == 0)
        throw Error(ErrorCode::Internal, "experiment: no request was completed");
    return report;
}

Figures describeDevice(const ModelInfo &info, std::uint64_t seed)
{
    const EngineConfig &effective = info.effective;
    return {{"device", effective.device},
            {"isa", info.isa},
            {"backend", info.backend},
            {"threads", std::int64_t{effective.threads}},
            {"cuda_graphs", effective.cudaGraphs ? "on" : "off"},
            {"model", info.name},
            {"max_model_len", std::int64_t{effective.maxModelLen}},
            {"max_num_seqs", std::int64_t{effective.limits.maxNumSeqs}},
            {"max_num_batched_tokens", std::int64_t{effective.limits.maxNumBatchedTokens}},
            {"kv_bytes", static_cast<std::int64_t>(effective.kv.budgetBytes)},
            {"block_size", std::int64_t{effective.kv.blockTokens}},
            {"seed", static_cast<std::int64_t>(seed)}};
}

void tellStage(const ExperimentHooks &hooks, const std::string &stage)
{
    checkStop(hooks);
    if (hooks.onStage)
        hooks.onStage(stage);
}

} // namespace engine
