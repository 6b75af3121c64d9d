// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>

namespace engine {

/// What happens when the system runs out of memory around a loaded model. When it was loaded a share of the free memory
/// was kept for peaks; once half of that share is gone nobody is let in beside what runs, until three quarters of it
/// are there again.
class MemoryRule {
public:
    /// \p available bytes now that the model is loaded, 0 when not known: the rule then never acts.
    void begin(std::size_t available, double reserve)
    {
        m_kept = static_cast<std::size_t>(static_cast<double>(available) * reserve);
        m_short = false;
    }
    /// Takes a reading; whether that changed isShort().
    bool update(std::size_t available)
    {
        const bool before = m_short;
        if (available > 0)
            m_short = m_short ? available < m_kept / 4 * 3 : available < m_kept / 2;
        return m_short != before;
    }
    [[nodiscard]] bool isShort() const { return m_short; }
    [[nodiscard]] std::size_t kept() const { return m_kept; }

private:
    std::size_t m_kept = 0;
    bool m_short = false;
};

} // namespace engine
