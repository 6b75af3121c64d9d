// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/stats.h"

#include <algorithm>

namespace engine {
namespace {

// The bounds of vLLM's metrics (vllm/v1/metrics/loggers.py), so that dashboards made for it fit.
constexpr std::array ttftSeconds{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
                                 1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
constexpr std::array gapSeconds{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
constexpr std::array requestSeconds{0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,   5.0,   10.0,   15.0,  20.0,
                                    30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
constexpr std::array requestTokens{1.0,      2.0,      5.0,       10.0,      20.0,      50.0,      100.0,   200.0,
                                   500.0,    1000.0,   2000.0,    5000.0,    10000.0,   20000.0,   50000.0, 100000.0,
                                   200000.0, 500000.0, 1000000.0, 2000000.0, 5000000.0, 10000000.0};
constexpr std::array choiceCounts{1.0, 2.0, 5.0, 10.0, 20.0};
constexpr std::array stepTokenCounts{1.0,   8.0,    16.0,   32.0,   64.0,   128.0,  256.0,
                                     512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0};
static_assert(ttftSeconds.size() <= Histogram::mostBounds && requestTokens.size() <= Histogram::mostBounds);

std::span<const double> upTo(std::span<const double> bounds, int most)
{
    if (most <= 0)
        return bounds;
    return bounds.first(static_cast<std::size_t>(std::ranges::upper_bound(bounds, most) - bounds.begin()));
}

Histogram withBounds(std::span<const double> bounds)
{
    Histogram histogram;
    histogram.bounds = bounds;
    return histogram;
}

} // namespace

void Histogram::observe(double value)
{
    ++count;
    sum += value;
    const auto first = static_cast<std::size_t>(std::ranges::lower_bound(bounds, value) - bounds.begin());
    for (std::size_t i = first; i < bounds.size(); ++i)
        ++buckets[i];
}

LatencyHistograms::LatencyHistograms(int maxModelLen)
    : ttft(withBounds(ttftSeconds))
    , itl(withBounds(gapSeconds))
    , tpot(withBounds(gapSeconds))
    , e2e(withBounds(requestSeconds))
    , queue(withBounds(requestSeconds))
    , prefill(withBounds(requestSeconds))
    , decode(withBounds(requestSeconds))
    , inference(withBounds(requestSeconds))
    , promptTokens(withBounds(upTo(requestTokens, maxModelLen)))
    , computedTokens(promptTokens)
    , generationTokens(promptTokens)
    , askedTokens(promptTokens)
    , choices(withBounds(choiceCounts))
    , longestChoice(promptTokens)
    , stepTokens(withBounds(stepTokenCounts))
{
}

} // namespace engine
