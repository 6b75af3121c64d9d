// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/session.h"

#include "app/cli/output.h"
#include "engine/api/worker.h"

#include <cstdio>
#include <sys/resource.h>

namespace cli {

StatsFile::StatsFile(const std::optional<std::string> &path)
{
    if (path)
        m_file.emplace("--stats", *path);
}

void StatsFile::write(const engine::EngineTotals &totals)
{
    if (!m_file)
        return;
    const auto peakBytes = [](int who) {
        rusage usage{};
        getrusage(who, &usage);
        return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024U;
    };
    const Json stats{{"steps", totals.steps},
                     {"threads", totals.threads},
                     {"max_running", totals.maxRunning},
                     {"preemptions", totals.preemptions},
                     {"blocks_total", totals.blocksTotal},
                     {"blocks_free", totals.blocksFree},
                     {"prefix_hit_tokens", totals.prefixHitTokens},
                     {"peak_rss_bytes", peakBytes(RUSAGE_SELF)},
                     {"worker_peak_rss_bytes", peakBytes(RUSAGE_CHILDREN)},
                     {"window_blocks_total", totals.windowBlocksTotal},
                     {"window_blocks_free", totals.windowBlocksFree},
                     {"kv_waste", totals.kvSlotSeconds > 0 ? totals.kvEmptySeconds / totals.kvSlotSeconds : 0.0},
                     {"kv_bytes", totals.kvBytes},
                     {"weight_bytes", totals.weightBytes},
                     {"workspace_bytes", totals.workspaceBytes}};
    m_file->write(stats.dump() + '\n');
    m_file->commit();
}

void tellOfModel(const engine::ModelInfo &info, const Context &context)
{
    if (context.quiet)
        return;
    for (const std::string &warning : info.warnings)
        printWarning(warning);
    if (!context.verbose)
        return;
    const engine::EngineConfig &effective = info.effective;
    const auto mebibytes = [](std::size_t bytes) { return std::to_string(bytes >> 20U) + " MiB"; };
    std::fprintf(stderr, "%s: %s, %s %s on %d threads%s, weights %s, workspace %s\n", info.path.c_str(),
                 info.architecture.c_str(), info.backend.c_str(), info.isa.c_str(), effective.threads,
                 effective.cudaGraphs ? " with CUDA graphs" : "", mebibytes(info.weightBytes).c_str(),
                 mebibytes(info.workspaceBytes).c_str());
    std::fprintf(
        stderr,
        "context %d tokens, KV pool %d blocks of %d tokens (%s of %s), at most %d sequences and %d tokens a step\n",
        effective.maxModelLen, effective.kv.numBlocks, effective.kv.blockTokens,
        mebibytes(effective.kv.budgetBytes).c_str(), engine::kvTypesText(effective.kv).c_str(),
        effective.limits.maxNumSeqs, effective.limits.maxNumBatchedTokens);
}

engine::ModelInfo loadModel(engine::RequestRunner &runner, const ModelOptions &options,
                            const engine::EngineConfig &config, const Context &context)
{
    Progress progress("loading " + options.model, context.quiet);
    const auto onProgress = [&progress](const engine::LoadProgress &p) { progress.update(p.fraction, p.stage); };
    engine::ModelInfo info = openModel(
        options.model, [&](const std::string &path) { return runner.load(path, config, context.stop, onProgress); });
    progress.finish();
    tellOfModel(info, context);
    return info;
}

namespace {

/// Notices about a device that fails or has no memory; others are for those who watch.
bool isFault(engine::EngineNotice::Kind kind)
{
    using Kind = engine::EngineNotice::Kind;
    return kind == Kind::PoolShrunk || kind == Kind::DeviceLost || kind == Kind::DeviceReplaced
        || kind == Kind::GraphsOff;
}

} // namespace

void warnOf(const engine::Event &event)
{
    if (const auto *changed = std::get_if<engine::ModelFileChanged>(&event))
        printWarning(changed->path + ": " + changed->what);
    if (const auto *notice = std::get_if<engine::EngineNotice>(&event); notice && isFault(notice->kind))
        printWarning(notice->message);
}

Session::Session(const ModelOptions &options, const engine::EngineConfig &config, const Context &context)
    : m_stats(options.statsFile)
    , m_context(context)
    , m_engine(engine::makeEngine(engine::ownWorkerCommand()))
    , m_runner(std::make_unique<engine::RequestRunner>(*m_engine))
{
    m_runner->setOtherEvents([quiet = context.quiet](const engine::Event &event) {
        if (!quiet)
            warnOf(event);
    });
    m_info = loadModel(*m_runner, options, config, context);
}

void Session::run(std::vector<engine::Request> requests, const engine::RequestRunner::OnText &onText,
                  const engine::RequestRunner::OnFinished &onFinished)
{
    m_runner->run(std::move(requests), m_context.stop, onText, onFinished);
}

void Session::finish()
{
    const engine::EngineTotals totals = m_engine->totals();
    m_runner.reset();
    m_engine.reset();
    m_stats.write(totals);
}

} // namespace cli
