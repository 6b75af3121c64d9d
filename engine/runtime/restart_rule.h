// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <algorithm>
#include <deque>
#include <optional>

namespace engine {

/// How often a lost device is opened anew: so many times within ten minutes, the first at once, the others after a wait
/// that doubles. A device that is lost more often is out of use.
class RestartRule {
public:
    static constexpr double windowSeconds = 600;
    static constexpr double firstWaitSeconds = 1;
    static constexpr double longestWaitSeconds = 30;

    explicit RestartRule(int restarts = 0)
        : m_restarts(restarts)
    {
    }

    /// Takes a loss, or a restart that failed; when to try, nothing when the device is out of use.
    [[nodiscard]] std::optional<double> lost(double now)
    {
        while (!m_losses.empty() && now - m_losses.front() > windowSeconds)
            m_losses.pop_front();
        if (static_cast<int>(m_losses.size()) >= m_restarts)
            return std::nullopt;
        double wait = m_losses.empty() ? 0.0 : firstWaitSeconds;
        for (std::size_t i = 1; i < m_losses.size(); ++i)
            wait = std::min(2 * wait, longestWaitSeconds);
        m_losses.push_back(now);
        return now + wait;
    }

    [[nodiscard]] int restarts() const { return m_restarts; }

private:
    int m_restarts;
    std::deque<double> m_losses;
};

} // namespace engine
