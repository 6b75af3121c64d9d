// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/runtime/local_engine_shared.h"

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <thread>

namespace engine {

/// Looks after the engine thread from a thread of its own: tells of a step that hangs, and reads the temperature of
/// the device while steps are made and until the engine has taken its budget back to normal. Any thread.
class EngineGuard {
public:
    /// Degrees Celsius of the hottest part that computes; empty when there is no sensor.
    using Sensor = std::function<std::optional<double>()>;

    /// \pre `shared` outlives this
    EngineGuard(EngineShared &shared, Sensor sensor, std::chrono::milliseconds sensorPeriod);

private:
    void run(const std::stop_token &stop);
    void readSensor();

    EngineShared &m_shared;
    Sensor m_sensor;
    std::chrono::milliseconds m_period;
    double m_nextReading = 0;
    bool m_hot = false; // was, and the budget may still be lowered
    int m_coolReadings = 0;
    std::jthread m_thread; // last: it uses the members above until it is joined
};

} // namespace engine
