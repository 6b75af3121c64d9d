// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/config.h"

#include <algorithm>

namespace engine {

/// What a hot device may do: above 85 C the token budget of a step falls with every reading, below 80 C it rises again
/// in the same way, and between the two it stays. Tokens are the same under every budget.
class ThermalRule {
public:
    static constexpr double hotCelsius = 85;
    static constexpr double coolCelsius = 80;
    static constexpr int levels = 8;       ///< at most; the lowest is a tenth of the budget
    static constexpr double factor = 0.75; ///< of the budget, from one level to the next

    [[nodiscard]] int level() const { return m_level; }

    /// Takes a reading; whether it changed the level.
    bool update(double celsius)
    {
        const int before = m_level;
        if (celsius > hotCelsius)
            m_level = std::min(m_level + 1, levels);
        else if (celsius < coolCelsius)
            m_level = std::max(m_level - 1, 0);
        return m_level != before;
    }

    /// Never below one token for each sequence.
    [[nodiscard]] BatchLimits limits(BatchLimits wanted) const
    {
        double budget = wanted.maxNumBatchedTokens;
        for (int i = 0; i < m_level; ++i)
            budget *= factor;
        wanted.maxNumBatchedTokens = std::max(static_cast<int>(budget), std::max(wanted.maxNumSeqs, 1));
        return wanted;
    }

private:
    int m_level = 0;
};

} // namespace engine
