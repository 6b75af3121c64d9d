// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/stats.h"

#include <algorithm>

namespace engine {

/// How full the KV pool was, and how much of what was given to requests held no token, over the steps of a run. The
/// scheduler counts the slots of each step (StepStats); here they are weighted by how long the steps lasted.
class KvUsage {
public:
    void add(const StepStats &step)
    {
        if (step.blocksTotal > 0)
            m_peak = std::max(m_peak, static_cast<double>(step.blocksUsed) / step.blocksTotal);
        m_slotSeconds += static_cast<double>(step.kvSlots) * step.duration;
        m_emptySeconds += static_cast<double>(step.kvSlotsEmpty) * step.duration;
    }

    [[nodiscard]] bool empty() const { return m_slotSeconds <= 0; }
    [[nodiscard]] double peak() const { return m_peak; } ///< blocks of requests over all blocks
    /// Empty slots over allocated slots, both weighted by the time they lasted.
    [[nodiscard]] double waste() const { return empty() ? 0 : m_emptySeconds / m_slotSeconds; }

private:
    double m_peak = 0;
    double m_slotSeconds = 0;
    double m_emptySeconds = 0;
};

} // namespace engine
