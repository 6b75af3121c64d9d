// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/rope_cache.h"

#include <algorithm>
#include <cmath>

namespace kernels {

bool RopeCache::Entry::holds(std::span<const int> wanted, const RopeTable &other) const
{
    return std::equal(wanted.begin(), wanted.end(), positions.begin(), positions.end())
        && other.attentionFactor == table.attentionFactor && other.inverseFrequencies == table.inverseFrequencies;
}

void RopeCache::Entry::fill(std::span<const int> wanted, const RopeTable &other)
{
    table = other;
    positions.assign(wanted.begin(), wanted.end());
    cosines.clear();
    sines.clear();
    for (const int position : positions) {
        for (const double frequency : table.inverseFrequencies) {
            cosines.push_back(
                static_cast<float>(std::cos(position * frequency) * static_cast<double>(table.attentionFactor)));
            sines.push_back(
                static_cast<float>(std::sin(position * frequency) * static_cast<double>(table.attentionFactor)));
        }
    }
}

void RopeCache::prepare(std::span<const int> positions, const RopeTable &table)
{
    for (std::size_t i = 0; i < m_entries.size(); ++i) {
        if (!m_entries[i].holds(positions, table))
            continue;
        m_current = i;
        m_entries[i].table.rotaryDim = table.rotaryDim;
        m_entries[i].table.interleaved = table.interleaved;
        return;
    }
    m_current = (m_current + 1) % m_entries.size(); // the older of the two
    m_entries[m_current].fill(positions, table);
}

void RopeCache::rotate(const LevelKernels &level, std::int64_t token, float *head) const
{
    const Entry &entry = m_entries[m_current];
    const int half = entry.table.rotaryDim / 2;
    const float *cosines = entry.cosines.data() + token * half;
    const float *sines = entry.sines.data() + token * half;
    if (entry.table.interleaved)
        return level.rotatePairs(head, cosines, sines, half);
    float *second = head + half;
    for (int i = 0; i < half; ++i) {
        const float a = head[i];
        const float b = second[i];
        head[i] = a * cosines[i] - b * sines[i];
        second[i] = a * sines[i] + b * cosines[i];
    }
}

} // namespace kernels
