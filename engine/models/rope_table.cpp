// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/rope_config.h"

#include "kernels/checks.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace engine {
namespace {

/// The dimension (in pairs) that turns `rotations` times over the trained context. Source: arXiv:2309.00071,
/// section 3.2.
double yarnPair(const RopeConfig &rope, double rotations)
{
    return rope.dimensions * std::log(rope.originalContext / (rotations * 2.0 * std::numbers::pi))
        / (2.0 * std::log(rope.base));
}

/// Blends scaled and kept frequencies: kept ones for fast pairs, down to scaled ones for slow pairs.
void applyYarn(const RopeConfig &rope, kernels::RopeTable &table)
{
    const double first = yarnPair(rope, rope.betaFast);
    const double last = yarnPair(rope, rope.betaSlow);
    const double low = std::max(0.0, rope.truncate ? std::floor(first) : first);
    double high = std::min(rope.dimensions - 1.0, rope.truncate ? std::ceil(last) : last);
    if (high <= low)
        high = low + 0.001; // a step instead of a division by zero
    for (std::size_t i = 0; i < table.inverseFrequencies.size(); ++i) {
        const double position = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
        const double ramp = rope.extrapolation * (1.0 - position);
        const double extrapolated = table.inverseFrequencies[i];
        table.inverseFrequencies[i] = extrapolated / rope.factor * (1.0 - ramp) + extrapolated * ramp;
    }
    // Temperature of section 3.4; nothing to correct when the context does not grow.
    const double scale = rope.factor > 1.0 ? 0.1 * std::log(rope.factor) + 1.0 : 1.0;
    table.attentionFactor = static_cast<float>(rope.attentionFactor * scale);
}

/// Long waves are stretched, short ones kept, those between blended.
double llama3Frequency(const RopeConfig &rope, double frequency)
{
    const double turns = rope.originalContext * frequency / (2.0 * std::numbers::pi);
    const double share = (turns - rope.lowFrequencyFactor) / (rope.highFrequencyFactor - rope.lowFrequencyFactor);
    const double kept = std::clamp(share, 0.0, 1.0);
    return frequency * ((1.0 - kept) / rope.factor + kept);
}

double baseOf(const RopeConfig &rope, int variant)
{
    if (rope.scaling != RopeScaling::Dynamic || variant == 0)
        return rope.base;
    const double length = static_cast<double>(rope.originalContext) + variant;
    const double growth = rope.factor * length / rope.originalContext - (rope.factor - 1.0);
    return rope.base * std::pow(growth, rope.dimensions / (rope.dimensions - 2.0));
}

} // namespace

void fillRopeTable(const RopeConfig &rope, std::span<const float> factors, int variant, kernels::RopeTable &table)
{
    const auto pairs = static_cast<std::size_t>(rope.dimensions / 2);
    CHECK(table.inverseFrequencies.size() == pairs && (factors.empty() || factors.size() == pairs));
    const double base = baseOf(rope, variant);
    for (std::size_t i = 0; i < pairs; ++i) {
        double frequency = std::pow(base, -2.0 * static_cast<double>(i) / rope.dimensions);
        if (!factors.empty())
            frequency /= static_cast<double>(factors[i]);
        if (rope.scaling == RopeScaling::Linear)
            frequency /= rope.factor;
        if (rope.scaling == RopeScaling::Llama3)
            frequency = llama3Frequency(rope, frequency);
        table.inverseFrequencies[i] = frequency;
    }
    table.attentionFactor = static_cast<float>(rope.attentionFactor);
    if (rope.scaling == RopeScaling::Yarn)
        applyYarn(rope, table);
}

kernels::RopeTable makeRopeTable(const RopeConfig &rope, std::span<const float> factors, int variant)
{
    kernels::RopeTable table;
    table.rotaryDim = rope.dimensions;
    table.interleaved = rope.interleaved;
    table.inverseFrequencies.resize(static_cast<std::size_t>(rope.dimensions / 2));
    fillRopeTable(rope, factors, variant, table);
    return table;
}

} // namespace engine
