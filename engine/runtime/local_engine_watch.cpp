// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/local_engine_loop.h"

#include "engine/core/system_memory.h"

#include <string>
#include <utility>

// What the engine thread looks after between two steps.

namespace engine {

namespace {

constexpr double memorySeconds = 0.25;

} // namespace

/// Each time that the last request has ended: every block must be back, and what a request stood in the way of is done.
void EngineLoop::onIdle()
{
    const bool idle = !m_scheduler || m_scheduler->idle();
    if (idle && !m_wasIdle && m_scheduler) {
        const std::string fault = m_probes.audit(*m_scheduler);
        if (!fault.empty()) {
            m_scheduler->resetPool();
            m_mapIsOld = true;
            send(EngineNotice{EngineNotice::Kind::AuditFailed, m_scheduler->steps(),
                              "after the last request had ended, " + fault + "; the KV pool was made anew"});
        }
        if (const auto rest = std::exchange(m_restOfPool, std::nullopt))
            changePool(*rest);
    }
    m_wasIdle = idle;
}

/// Takes a new reading of the device's temperature and lowers or restores the token budget by it.
void EngineLoop::followTemperature()
{
    const auto [celsius, readings] = m_shared.pulse.temperature();
    if (!m_model || readings == m_temperatureReadings)
        return;
    m_temperatureReadings = readings;
    const bool wasCool = m_thermal.level() == 0;
    if (!m_thermal.update(celsius))
        return;
    const BatchLimits &wanted = m_model->info().effective.limits;
    m_scheduler->setLimits(m_thermal.limits(wanted));
    m_scheduler->setHot(m_thermal.level() > 0);
    const int budget = m_scheduler->limits().maxNumBatchedTokens;
    std::string note = std::to_string(static_cast<int>(celsius))
        + " C: " + (m_thermal.level() == 0 ? "the token budget is whole again, " : "the token budget is lowered, ")
        + std::to_string(budget) + " of " + std::to_string(wanted.maxNumBatchedTokens) + " tokens a step";
    if (wasCool || m_thermal.level() == 0)
        send(EngineNotice{wasCool ? EngineNotice::Kind::Overheated : EngineNotice::Kind::Cooled,
                          m_scheduler->steps() + 1, "the processor is at " + note});
    applied(0, std::move(note));
}

/// Whether there is a new reading of the memory that the system can still give.
bool EngineLoop::readMemory()
{
    if (now() < m_nextMemoryReading)
        return false;
    m_availableBytes = m_probes.availableMemory();
    m_nextMemoryReading = now() + memorySeconds;
    return true;
}

/// While memory is short what runs goes on, and one request at a time is let in after it.
void EngineLoop::followMemory()
{
    if (!m_model || !readMemory() || !m_memory.update(m_availableBytes))
        return;
    const bool isShort = m_memory.isShort();
    m_scheduler->holdAdmissions(isShort);
    send(EngineNotice{
        isShort ? EngineNotice::Kind::MemoryShort : EngineNotice::Kind::MemoryBack, m_scheduler->steps() + 1,
        describeBytes(m_availableBytes) + " of memory are free, where " + describeBytes(m_memory.kept())
            + " are kept for peaks: "
            + (isShort ? "requests wait until what runs has ended" : "requests are let in again beside what runs")});
}

} // namespace engine
