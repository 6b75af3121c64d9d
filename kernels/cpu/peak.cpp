// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/peak.h"

#include "kernels/cpu/level_choice.h"
#include "kernels/error.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace kernels {

namespace {

using Clock = std::chrono::steady_clock;
using Loop = double (*)(std::int64_t rounds);

constexpr std::int64_t roundsPerRun = 20000; // well under a millisecond
constexpr auto timePerKind = std::chrono::milliseconds(50);

double bestRate(Loop loop)
{
    double best = 0.0;
    for (const auto end = Clock::now() + timePerKind; Clock::now() < end;) {
        const auto start = Clock::now();
        const double operations = loop(roundsPerRun);
        best = std::max(best, operations / std::chrono::duration<double>(Clock::now() - start).count());
    }
    return best;
}

/// Threads run at once, since cores slow each other down by heat and shared units.
double rateOfAll(Loop loop, int threads)
{
    std::vector<double> rates(static_cast<std::size_t>(threads));
    {
        std::vector<std::jthread> runners;
        for (double &rate : rates)
            runners.emplace_back([&rate, loop] { rate = bestRate(loop); });
    }
    double sum = 0.0;
    for (const double rate : rates)
        sum += rate;
    return sum;
}

} // namespace

PeakRates measurePeak(std::string_view isa, int threads)
{
    CHECK(threads >= 1);
    const LevelKernels level = kernelsOf(chooseIsa(isa));
    return {rateOfAll(level.integerPeak, threads), rateOfAll(level.floatPeak, threads)};
}

} // namespace kernels
