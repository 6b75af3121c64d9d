// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/stats.h"

#include <cstdint>
#include <unordered_map>

namespace engine {

/// How full the KV pool was and how much of what was given to requests held no token, over the steps of a run.
/// A slot counts as used from the step that writes it.
class KvUsage {
public:
    explicit KvUsage(int blockTokens)
        : m_blockTokens(blockTokens)
    {
    }

    void add(const StepStats &step);

    [[nodiscard]] bool empty() const { return m_allocatedSeconds <= 0; }
    [[nodiscard]] double peak() const { return m_peak; } ///< blocks of requests over all blocks
    /// Empty slots over allocated slots, both weighted by the time they lasted.
    [[nodiscard]] double waste() const { return empty() ? 0 : m_emptySeconds / m_allocatedSeconds; }

private:
    struct Held {
        int context = 0;
        int prompt = 0;
    };
    [[nodiscard]] int emptySlots(const Held &held) const;
    void forgetThoseThatLeft(const StepStats &step);

    int m_blockTokens;
    std::unordered_map<RequestId, Held> m_held; // as of its last step
    std::uint64_t m_preemptions = 0;
    double m_peak = 0;
    double m_emptySeconds = 0;
    double m_allocatedSeconds = 0;
};

} // namespace engine
