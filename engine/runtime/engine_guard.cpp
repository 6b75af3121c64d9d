// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/engine_guard.h"

#include "engine/runtime/thermal_rule.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>

namespace engine {

namespace {

std::string seconds(double value)
{
    std::array<char, 32> text{};
    (void)std::snprintf(text.data(), text.size(), "%.1f s", value);
    return text.data();
}

} // namespace

EngineGuard::EngineGuard(EngineShared &shared, Sensor sensor, std::chrono::milliseconds sensorPeriod)
    : m_shared(shared)
    , m_sensor(std::move(sensor))
    , m_period(sensorPeriod)
    , m_thread([this](const std::stop_token &stop) { run(stop); })
{
}

void EngineGuard::run(const std::stop_token &stop)
{
    while (!stop.stop_requested()) {
        readSensor();
        double pause = m_shared.pulse.check(m_shared.clock.now(), [this](std::uint64_t step, double taken) {
            m_shared.events.push(
                {EngineNotice{EngineNotice::Kind::StepStalled, step,
                              "step " + std::to_string(step) + " has not come to its end in " + seconds(taken)}});
        });
        if (m_sensor)
            pause = std::min(pause, std::chrono::duration<double>(m_period).count());
        m_shared.pulse.rest(stop, pause);
    }
}

void EngineGuard::readSensor()
{
    const double now = m_shared.clock.now();
    if (!m_sensor || now < m_nextReading)
        return;
    m_nextReading = now + std::chrono::duration<double>(m_period).count();
    if (!m_shared.pulse.takeWorked() && !m_hot)
        return;
    try {
        if (const std::optional<double> celsius = m_sensor()) {
            m_shared.pulse.setTemperature(*celsius);
            m_hot = *celsius >= ThermalRule::coolCelsius || m_hot;
            m_coolReadings = *celsius < ThermalRule::coolCelsius ? m_coolReadings + 1 : 0;
            if (m_coolReadings > ThermalRule::levels)
                m_hot = false; // every level has been given back
            if (m_hot)
                m_shared.commands.push(NudgeCommand{}); // an idle engine takes its budget back too
        }
    } catch (const std::exception &) {
        // A sensor that fails once may answer the next time.
    }
}

} // namespace engine
