// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/rope_cache.h"

#include <algorithm>
#include <cmath>

namespace kernels {

bool RopeCache::holds(std::span<const int> positions, const RopeTable &table) const
{
    return std::equal(positions.begin(), positions.end(), m_positions.begin(), m_positions.end())
        && table.attentionFactor == m_table.attentionFactor && table.inverseFrequencies == m_table.inverseFrequencies;
}

void RopeCache::prepare(std::span<const int> positions, const RopeTable &table)
{
    const bool same = holds(positions, table);
    m_table.rotaryDim = table.rotaryDim;
    m_table.interleaved = table.interleaved;
    if (same)
        return;
    m_table = table;
    m_positions.assign(positions.begin(), positions.end());
    m_cosines.clear();
    m_sines.clear();
    for (const int position : positions) {
        for (const double frequency : table.inverseFrequencies) {
            m_cosines.push_back(
                static_cast<float>(std::cos(position * frequency) * static_cast<double>(table.attentionFactor)));
            m_sines.push_back(
                static_cast<float>(std::sin(position * frequency) * static_cast<double>(table.attentionFactor)));
        }
    }
}

void RopeCache::rotate(std::int64_t token, float *head) const
{
    const int half = m_table.rotaryDim / 2;
    const float *cosines = m_cosines.data() + token * half;
    const float *sines = m_sines.data() + token * half;
    const int step = m_table.interleaved ? 2 : 1;
    float *second = head + (m_table.interleaved ? 1 : half);
    for (int i = 0; i < half; ++i) {
        const float a = head[i * step];
        const float b = second[i * step];
        head[i * step] = a * cosines[i] - b * sines[i];
        second[i * step] = a * sines[i] + b * cosines[i];
    }
}

} // namespace kernels
