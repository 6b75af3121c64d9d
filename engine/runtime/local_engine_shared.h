// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/stats.h"
#include "engine/core/mailbox.h"
#include "engine/core/ring.h"
#include "engine/runtime/event_outbox.h"
#include "engine/runtime/local_engine_commands.h"
#include "engine/runtime/step_stats.h"
#include "engine/text/tokenizer.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

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

/// Everything through which callers and the engine thread meet.
struct EngineShared {
    static constexpr std::size_t keptSteps = 4096;

    EngineClock clock;
    Mailbox<Command> commands;
    EventOutbox events;
    Ring<StepStats> steps{keptSteps};
    PublishedState state;
    std::atomic<bool> watchBlocks = false;
};

} // namespace engine
