// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/request.h"
#include "engine/runtime/sampler.h"
#include "kernels/sampling.h"

#include <cstdint>
#include <span>
#include <vector>

namespace engine {

/// What a device needs to know to draw a step's tokens, put together before the step is run. Kept between steps for its
/// memory.
class SamplingRequests {
public:
    void clear(int vocab);
    /// As Sampler::sample; the logits are row `logitRow` of the step.
    void add(int logitRow, const SamplingParams &params, std::span<const int> history, std::uint64_t seed,
             std::span<const std::uint64_t> allowed);

    [[nodiscard]] std::size_t size() const { return m_rows.size(); }
    [[nodiscard]] const kernels::SamplingRow &row(std::size_t i) const { return m_rows[i]; }
    /// All of it, for another process: engine/runtime/worker/wire.h.
    template<typename Wire> void wire(Wire &wire) const { fields(*this, wire); }
    template<typename Wire> void wire(Wire &wire) { fields(*this, wire); }
    /// Valid until the next call of another method.
    [[nodiscard]] kernels::SamplingBatch batch() const;

private:
    template<typename Self, typename Wire> static void fields(Self &self, Wire &wire)
    {
        wire(self.m_rows, self.m_history, self.m_biases, self.m_allowed, self.m_words, self.m_alternatives);
    }

    std::vector<kernels::SamplingRow> m_rows;
    std::vector<int> m_history;
    std::vector<kernels::SamplingBias> m_biases;
    std::vector<std::uint64_t> m_allowed;
    std::size_t m_words = 0; ///< of a row of m_allowed
    int m_alternatives = -1;
};

/// A row's result in the host's words. `alternatives` are those of the row. `logits` of a row at fault are asked for to
/// say what is wrong with them, as the host's sampler does.
template<typename Logits>
[[nodiscard]] Sampled sampledOf(const kernels::SamplingRow &row, const kernels::SampledRow &found,
                                std::span<const kernels::Alternative> alternatives, Logits logits)
{
    Sampled sampled;
    if (found.fault == kernels::SamplingFault::NothingAllowed)
        sampled.error = Sampler::nothingAllowed();
    else if (found.fault != kernels::SamplingFault::None)
        sampled.error = Sampler::checkLogits(logits());
    if (!sampled.error.empty())
        return sampled;
    sampled.token = found.token;
    if (row.alternatives >= 0)
        sampled.logprob = found.logprob;
    for (int i = 0; i < row.alternatives && alternatives[static_cast<std::size_t>(i)].token >= 0; ++i) {
        const kernels::Alternative &one = alternatives[static_cast<std::size_t>(i)];
        sampled.top.emplace_back(one.token, one.logprob);
    }
    return sampled;
}

} // namespace engine
