// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/stats.h"
#include "engine/core/mailbox.h"
#include "engine/core/ring.h"
#include "engine/runtime/event_outbox.h"
#include "engine/runtime/local_engine_commands.h"
#include "engine/runtime/step_stats.h"
#include "engine/text/tokenizer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>

namespace engine {

/// Seconds since the engine was made, on one monotonic clock. Any thread.
class EngineClock {
public:
    [[nodiscard]] double now() const
    {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - m_start).count();
    }

private:
    std::chrono::steady_clock::time_point m_start = std::chrono::steady_clock::now();
};

/// What callers read between events: totals and the watched page map. The engine thread writes, any thread reads.
class PublishedState {
public:
    void setTotals(const EngineTotals &totals)
    {
        const std::lock_guard lock(m_mutex);
        m_totals = totals;
    }
    [[nodiscard]] EngineTotals totals() const
    {
        const std::lock_guard lock(m_mutex);
        return m_totals;
    }

    /// `tokenizer` must live until the snapshot is replaced or cleared.
    void setBlocks(BlockSnapshot snapshot, const Tokenizer &tokenizer)
    {
        const std::lock_guard lock(m_mutex);
        m_blocks = std::move(snapshot);
        m_tokenizer = &tokenizer;
    }
    void clearBlocks()
    {
        const std::lock_guard lock(m_mutex);
        m_blocks = {};
        m_tokenizer = nullptr;
    }
    [[nodiscard]] std::shared_ptr<const BlockMap> blockMap() const
    {
        const std::lock_guard lock(m_mutex);
        return m_blocks.map;
    }
    /// Held under the lock, so that the engine thread cannot free the tokenizer meanwhile; one block is quick.
    [[nodiscard]] std::string blockText(int block) const;

private:
    mutable std::mutex m_mutex;
    EngineTotals m_totals;
    BlockSnapshot m_blocks;
    const Tokenizer *m_tokenizer = nullptr;
};

/// The engine thread's pulse, by which another thread sees that a step hangs, and the temperature that it sees
/// meanwhile. Any thread.
class EnginePulse {
public:
    void setTimeout(double seconds)
    {
        const std::lock_guard lock(m_mutex);
        m_timeout = seconds;
        m_timeoutIsNew = true;
        m_changed.notify_all();
    }
    /// Sleeps that long, or until a new timeout is set.
    void rest(const std::stop_token &stop, double seconds)
    {
        std::unique_lock lock(m_mutex);
        m_changed.wait_for(lock, stop, std::chrono::duration<double>(seconds),
                           [this] { return std::exchange(m_timeoutIsNew, false); });
    }
    void begin(std::uint64_t step, double now)
    {
        const std::lock_guard lock(m_mutex);
        m_step = step;
        m_startedAt = now;
        m_told = false;
    }
    /// Whether the step was told to hang.
    [[nodiscard]] bool end()
    {
        const std::lock_guard lock(m_mutex);
        m_worked = true;
        m_startedAt = -1;
        return m_told;
    }
    /// Calls `tell` with step and seconds, once, when a step takes longer than it may. Held under the lock, so that the
    /// end of the step is told later. Seconds until it is to be called again.
    template<typename Tell> double check(double now, const Tell &tell)
    {
        constexpr double leisure = 1.0;
        constexpr double shortest = 0.005;
        const std::lock_guard lock(m_mutex);
        if (m_timeout <= 0)
            return leisure;
        if (m_startedAt >= 0 && !m_told && now - m_startedAt >= m_timeout) {
            m_told = true;
            tell(m_step, now - m_startedAt);
        }
        return std::clamp(m_timeout / 4, shortest, leisure);
    }
    /// Whether a step was made since the last question, or is being made.
    [[nodiscard]] bool takeWorked()
    {
        const std::lock_guard lock(m_mutex);
        return std::exchange(m_worked, false) || m_startedAt >= 0;
    }

    struct Temperature {
        double celsius = 0;
        std::uint64_t readings = 0; ///< made so far
    };
    void setTemperature(double celsius)
    {
        const std::lock_guard lock(m_mutex);
        m_temperature = {celsius, m_temperature.readings + 1};
    }
    [[nodiscard]] Temperature temperature() const
    {
        const std::lock_guard lock(m_mutex);
        return m_temperature;
    }

private:
    mutable std::mutex m_mutex;
    std::condition_variable_any m_changed;
    double m_timeout = 0;
    bool m_timeoutIsNew = false;
    std::uint64_t m_step = 0;
    double m_startedAt = -1;
    bool m_told = false;
    bool m_worked = false;
    Temperature m_temperature;
};

/// Everything through which callers and the engine thread meet.
struct EngineShared {
    static constexpr std::size_t keptSteps = 4096;

    EngineClock clock;
    Mailbox<Command> commands;
    EventOutbox events;
    Ring<StepStats> steps{keptSteps};
    PublishedState state;
    EnginePulse pulse;
    std::atomic<bool> watchBlocks = false;
};

} // namespace engine
