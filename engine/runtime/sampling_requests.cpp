// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/sampling_requests.h"

#include <algorithm>

namespace engine {

void SamplingRequests::clear(int vocab)
{
    constexpr std::size_t wordBits = 64;
    m_words = (static_cast<std::size_t>(vocab) + wordBits - 1) / wordBits;
    m_rows.clear();
    m_history.clear();
    m_biases.clear();
    m_allowed.clear();
    m_alternatives = -1;
}

void SamplingRequests::add(int logitRow, const SamplingParams &params, std::span<const int> history, std::uint64_t seed,
                           std::span<const std::uint64_t> allowed)
{
    kernels::SamplingRow row;
    row.temperature = params.temperature;
    row.topP = params.topP;
    row.minP = params.minP;
    row.repetitionPenalty = params.repetitionPenalty;
    row.presencePenalty = params.presencePenalty;
    row.frequencyPenalty = params.frequencyPenalty;
    row.seed = seed;
    row.position = history.size();
    row.logitRow = logitRow;
    row.topK = params.topK;
    row.alternatives = params.logprobs;
    row.firstHistory = static_cast<int>(m_history.size());
    if (Sampler::penalises(params)) { // nothing else looks at it
        row.historyCount = static_cast<int>(history.size());
        m_history.insert(m_history.end(), history.begin(), history.end());
    }
    row.firstBias = static_cast<int>(m_biases.size());
    row.biasCount = static_cast<int>(params.logitBias.size());
    for (const LogitBias &one : params.logitBias)
        m_biases.push_back({one.token, static_cast<float>(one.bias)});
    if (!allowed.empty()) {
        row.allowedRow = static_cast<int>(m_allowed.size() / m_words);
        m_allowed.insert(m_allowed.end(), allowed.begin(), allowed.end());
        // A tokenizer may know fewer tokens than the network has.
        m_allowed.resize((static_cast<std::size_t>(row.allowedRow) + 1) * m_words);
    }
    m_alternatives = std::max(m_alternatives, params.logprobs);
    m_rows.push_back(row);
}

kernels::SamplingBatch SamplingRequests::batch() const
{
    return {m_rows, m_history, m_biases, m_allowed, m_alternatives};
}

} // namespace engine
