// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <algorithm>
#include <cstdint>

namespace engine {

/// How many prompt tokens a step may take so that it ends soon enough for cancels, shutdown and decoding neighbours
/// on a slow device. It starts low and follows what is measured; on a fast device the batch limit is reached within a
/// few steps. Chunking never changes tokens, so this never does either.
class StepPacer {
public:
    static constexpr double targetSeconds = 0.8;
    static constexpr int mostFirstTokens = 256;
    static constexpr int leastTokens = 16;
    static constexpr int mostTokens = 1 << 20;

    StepPacer() = default;
    /// Starts from a low guess of what a device does: a few cores, or the reference operations.
    StepPacer(std::int64_t parameters, bool reference)
    {
        const double operationsPerSecond = reference ? 5e9 : 1e11;
        const double tokens =
            targetSeconds * operationsPerSecond / (2.0 * static_cast<double>(std::max<std::int64_t>(parameters, 1)));
        m_tokens = static_cast<int>(std::clamp<double>(tokens, leastTokens, mostFirstTokens));
    }

    [[nodiscard]] int promptTokens() const { return m_tokens; }

    /// Takes the duration of a step with `tokens` tokens, of which `promptTokens` were of prompts.
    void measured(int tokens, int promptTokens, double seconds)
    {
        if (promptTokens <= 0 || tokens <= 0)
            return;
        const double room = std::max(seconds, 1e-6) / targetSeconds;
        if (room > 1.0)
            m_tokens = static_cast<int>(std::max<double>(leastTokens, promptTokens / room));
        else if (promptTokens >= m_tokens) // the cap was what held this step
            m_tokens = static_cast<int>(std::min<double>(mostTokens, m_tokens * std::min(8.0, 0.9 / room)));
        m_tokens = std::max(m_tokens, leastTokens);
    }

private:
    int m_tokens = leastTokens;
};

} // namespace engine
