// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/lab/device_experiments.h"

#include "engine/api/error.h"

#include <utility>

namespace engine {

ExperimentResult runDeviceExperiment(std::string_view name, const std::string &path, const EngineConfig &config,
                                     std::uint64_t seed, const ExperimentHooks &hooks)
{
    using Function = ExperimentResult (*)(const DeviceTrial &);
    static constexpr std::pair<std::string_view, Function> functions[] = {
        {"paging", device::paging},
        {"dynamic-batching", device::dynamicBatching},
        {"prefix-cache", device::prefixCache},
        {"chunked-prefill", device::chunkedPrefill},
        {"flash-attention", device::flashAttention},
        {"gqa", device::groupedQueries},
        {"overload", device::overload},
        {"step-cost", device::stepCost},
    };
    static_cast<void>(experimentSpec(name)); // tells an unknown name with the known ones
    for (const auto &[known, function] : functions) {
        if (known != name)
            continue;
        ExperimentResult result = function({path, config, seed, hooks});
        result.name = name;
        return result;
    }
    throw Error(ErrorCode::Internal, "experiment \"" + std::string(name) + "\" has no function");
}

} // namespace engine
