// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/lab/experiment_workloads.h"

#include "engine/lab/load_workload.h"

#include <algorithm>
#include <cmath>

namespace engine {

int drawLength(LabRandom &random, double mean, int low, int high)
{
    constexpr double sigma = 1.0;
    const double value = std::exp(std::log(mean) - sigma * sigma / 2 + sigma * random.normal());
    return static_cast<int>(std::lround(std::clamp<double>(value, low, high)));
}

std::vector<ModelledRequest> shareGptLengths(int requests, double rate, std::uint64_t seed)
{
    LabRandom random(seed);
    const std::vector<double> arrivals = arrivalTimes(requests, rate, seed);
    std::vector<ModelledRequest> list(static_cast<std::size_t>(requests));
    for (std::size_t i = 0; i < list.size(); ++i) {
        list[i].arrival = arrivals[i];
        // Means before the cut at 1,024 that give 161 and 338 behind it.
        list[i].promptTokens = drawLength(random, 166.5, 4, 1024);
        list[i].outputTokens = drawLength(random, 390.0, 4, 1024);
    }
    return list;
}

} // namespace engine
