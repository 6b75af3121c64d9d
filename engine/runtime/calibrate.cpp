// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/calibrate.h"

#include "engine/runtime/channel_watch.h"
#include "engine/runtime/watched_evaluator.h"

#include <algorithm>

namespace engine {

ImportanceMatrix measureImportance(const QuantizeOptions &options, std::stop_token stop)
{
    ChannelWatch watch; // outlives the evaluator
    EngineConfig config = options.engine;
    if (config.maxModelLen == 0)
        config.maxModelLen = options.calibrationContext;
    const auto evaluator =
        openWatchedEvaluator(options.input, config, stop,
                             [&watch](std::unique_ptr<kernels::Ops> ops) { return watch.around(std::move(ops)); });
    std::vector<int> ids = evaluator->encode(options.calibrationText);
    const auto context = static_cast<std::size_t>(
        std::min(options.calibrationContext, std::max(2, evaluator->info().effective.maxModelLen)));
    const std::size_t chunks = ids.size() / context;
    if (chunks == 0)
        throw Error(ErrorCode::Refused,
                    "the calibration text has " + std::to_string(ids.size()) + " tokens, wanted at least one chunk of "
                        + std::to_string(context));
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
        const std::span<int> part(ids.data() + chunk * context, context);
        if (evaluator->addsBos() && evaluator->bosId() >= 0)
            part[0] = evaluator->bosId();
        if (options.progress)
            options.progress(static_cast<double>(chunk) / static_cast<double>(chunks),
                             "calibration chunk " + std::to_string(chunk + 1) + " of " + std::to_string(chunks));
        evaluator->logits(part, false, [](std::span<const float>) { }, stop);
    }
    ImportanceMatrix matrix = watch.result();
    matrix.datasets.emplace_back("calibration text");
    matrix.chunks = static_cast<std::int64_t>(chunks);
    matrix.chunkTokens = static_cast<std::int64_t>(context);
    return matrix;
}

} // namespace engine
