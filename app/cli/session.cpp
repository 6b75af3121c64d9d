// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/session.h"

#include "app/cli/output.h"

#include <fstream>
#include <sys/resource.h>

namespace cli {

using engine::Error;
using engine::ErrorCode;

Session::Session(const ModelOptions &options, const engine::EngineConfig &config, const Context &context)
    : m_options(options)
    , m_context(context)
    , m_engine(engine::makeEngine())
    , m_runner(*m_engine)
{
    m_runner.setOtherEvents([quiet = context.quiet](const engine::Event &event) {
        if (const auto *changed = std::get_if<engine::ModelFileChanged>(&event); changed && !quiet)
            printWarning(changed->path + ": " + changed->what);
    });
    Progress progress("loading " + options.model, context.quiet);
    const auto onProgress = [&progress](const engine::LoadProgress &p) { progress.update(p.fraction, p.stage); };
    m_info = openModel(options.model,
                       [&](const std::string &path) { return m_runner.load(path, config, context.stop, onProgress); });
    progress.finish();
    if (!context.quiet)
        for (const std::string &warning : m_info.warnings)
            printWarning(warning);
}

void Session::run(std::vector<engine::Request> requests, const engine::RequestRunner::OnText &onText,
                  const engine::RequestRunner::OnFinished &onFinished)
{
    m_runner.run(std::move(requests), m_context.stop, onText, onFinished);
}

void Session::finish() const
{
    if (m_options.statsFile.empty())
        return;
    const engine::EngineTotals totals = m_engine->totals();
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const Json stats{{"steps", totals.steps},
                     {"max_running", totals.maxRunning},
                     {"preemptions", totals.preemptions},
                     {"blocks_total", totals.blocksTotal},
                     {"blocks_free", totals.blocksFree},
                     {"prefix_hit_tokens", totals.prefixHitTokens},
                     {"peak_rss_bytes", static_cast<std::uint64_t>(usage.ru_maxrss) * 1024U},
                     {"kv_bytes", totals.kvBytes},
                     {"weight_bytes", totals.weightBytes},
                     {"workspace_bytes", totals.workspaceBytes}};
    std::ofstream file(m_options.statsFile, std::ios::binary);
    file << stats.dump() << '\n';
    if (!file.flush())
        throw Error(ErrorCode::IoError, "--stats " + m_options.statsFile + ": could not be written");
}

} // namespace cli
