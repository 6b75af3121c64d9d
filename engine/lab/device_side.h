// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/engine.h"
#include "engine/lab/engine_load_target.h"
#include "engine/lab/experiment.h"
#include "engine/lab/load_generator.h"
#include "engine/lab/request_runner.h"

#include <memory>
#include <span>
#include <string>

namespace engine {

/// An engine of its own with the model loaded, for one side of an experiment on this machine.
class DeviceSide {
public:
    /// \throws Error as the engine reports it, or Cancelled
    DeviceSide(const std::string &path, const EngineConfig &config, const ExperimentHooks &hooks);

    [[nodiscard]] const ModelInfo &info() const { return m_info; }
    [[nodiscard]] Engine &engine() { return *m_engine; }
    [[nodiscard]] RequestRunner &runner() { return m_runner; }
    /// \throws Error Cancelled, or what the first failed request failed with
    [[nodiscard]] LoadReport run(std::span<const LoadRequest> requests, const LoadOptions &options = {});

private:
    const ExperimentHooks &m_hooks;
    std::unique_ptr<Engine> m_engine;
    RequestRunner m_runner;
    ModelInfo m_info;
};

/// What a device experiment is given.
struct DeviceTrial {
    const std::string &path;
    const EngineConfig &config;
    std::uint64_t seed = 0;
    const ExperimentHooks &hooks;
};

/// What every device experiment says about itself.
[[nodiscard]] Figures describeDevice(const ModelInfo &info, std::uint64_t seed);

/// One stage on the way, told to the caller. \throws Error Cancelled
void tellStage(const ExperimentHooks &hooks, const std::string &stage);

} // namespace engine
