// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/lab/kv_usage.h"
#include "engine/lab/load_generator.h"
#include "engine/lab/request_runner.h"

#include <chrono>
#include <cstdint>
#include <unordered_map>

namespace engine {

/// A load on an engine of this process. Durations are the engine's own (RequestFinished and StepStats), so that they
/// are the ones that the window and the metrics show. Thread: one caller, the runner's.
class EngineLoadTarget final : public LoadTarget {
public:
    /// \pre a model is loaded; both outlive this
    EngineLoadTarget(RequestRunner &runner, Engine &engine);

    [[nodiscard]] double now() const override;
    void send(std::size_t index, const LoadRequest &request) override;
    [[nodiscard]] std::vector<std::pair<std::size_t, LoadSample>> wait(double seconds) override;
    void cancelAll() override;
    [[nodiscard]] ServingFigures figures() override;

private:
    struct Open {
        std::size_t index = 0;
        double sentAt = 0;
    };

    void takeSteps();

    RequestRunner &m_runner;
    Engine &m_engine;
    std::chrono::steady_clock::time_point m_start = std::chrono::steady_clock::now();
    std::unordered_map<RequestId, Open> m_open;
    KvUsage m_usage;
    ServingFigures m_figures;
    std::uint64_t m_preemptionsBefore = 0;
    std::uint64_t m_queriesBefore = 0;
    std::uint64_t m_hitsBefore = 0;
    StepStats m_last;
};

} // namespace engine
