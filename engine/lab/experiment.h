// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/config.h"
#include "engine/api/modelled.h"

#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace engine {

using FigureValue = std::variant<std::int64_t, double, std::string>;
/// Named numbers in the order in which they are shown. Units end the names.
using Figures = std::vector<std::pair<std::string, FigureValue>>;

/// A fixed workload without and with one system.
struct ExperimentResult {
    std::string name;
    std::string claim; ///< one sentence: what is checked
    Figures baseline;
    Figures treatment;
    double ratio = 0; ///< how much better the treatment is in the figure that the claim is about
    bool holds = false;
    std::string bound; ///< what limits the ratio here
    Figures config;
};

struct ExperimentSpec {
    std::string_view name;
    std::string_view what;  ///< baseline against treatment
    std::string_view claim; ///< published, with its source
    bool modelled = true;   ///< can be run on a modelled device
};
[[nodiscard]] std::span<const ExperimentSpec> experimentSpecs();
/// \throws Error InvalidArgument naming the known ones
[[nodiscard]] const ExperimentSpec &experimentSpec(std::string_view name);

/// How a caller follows and stops an experiment.
struct ExperimentHooks {
    std::stop_token stop;
    std::function<void(const std::string &stage)> onStage; ///< may be empty
};

/// On a modelled device: real scheduler and block manager, step times of the roofline. The same seed gives the same
/// result to the last bit. \throws Error InvalidArgument, Cancelled
[[nodiscard]] ExperimentResult runModelledExperiment(std::string_view name, const ModelledTarget &target,
                                                     std::uint64_t seed, const ExperimentHooks &hooks);

/// On this machine with the model at `path`. `config` gives device, threads and the like; pool, limits and baselines
/// are the experiment's own. \throws Error InvalidArgument, Cancelled, and as the engine reports them
[[nodiscard]] ExperimentResult runDeviceExperiment(std::string_view name, const std::string &path,
                                                   const EngineConfig &config, std::uint64_t seed,
                                                   const ExperimentHooks &hooks);

/// \throws Error Cancelled when a stop was requested
void checkStop(const ExperimentHooks &hooks);

} // namespace engine
