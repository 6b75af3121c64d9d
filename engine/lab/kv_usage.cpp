// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/lab/kv_usage.h"

#include <algorithm>
#include <unordered_set>

namespace engine {

/// Blocks are given for the whole prompt at once and then one by one; shared ones are always full, so that empty slots
/// belong to one request each.
int KvUsage::emptySlots(const Held &held) const
{
    const int tokens = std::max(held.context, held.prompt);
    const int slots = (tokens + m_blockTokens - 1) / m_blockTokens * m_blockTokens;
    return slots - held.context;
}

/// A decoding request is in every step until it ends. One whose prompt is being computed may miss a step, but loses its
/// blocks only when something was preempted.
void KvUsage::forgetThoseThatLeft(const StepStats &step)
{
    std::unordered_set<RequestId> present;
    for (const StepRow &row : step.rows)
        present.insert(row.request);
    const bool preempted = step.preemptions != m_preemptions;
    m_preemptions = step.preemptions;
    std::erase_if(m_held, [&](const auto &item) {
        const bool decoding = item.second.context >= item.second.prompt;
        return !present.contains(item.first) && (decoding || preempted);
    });
}

void KvUsage::add(const StepStats &step)
{
    forgetThoseThatLeft(step);
    for (const StepRow &row : step.rows)
        m_held[row.request] = {row.contextTokens, row.promptTokens};
    if (step.blocksTotal > 0)
        m_peak = std::max(m_peak, static_cast<double>(step.blocksUsed) / step.blocksTotal);
    std::int64_t empty = 0;
    std::int64_t written = 0;
    for (const auto &[id, held] : m_held) {
        empty += emptySlots(held);
        written += held.context;
    }
    // Blocks beyond what the tokens need were reserved. Where requests share blocks, `written` counts those twice.
    const std::int64_t allocated = std::int64_t{step.blocksUsed} * m_blockTokens;
    empty = std::max(empty, allocated - written);
    m_emptySeconds += static_cast<double>(empty) * step.duration;
    m_allocatedSeconds += static_cast<double>(allocated) * step.duration;
}

} // namespace engine
