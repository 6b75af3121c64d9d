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

std::vector<LoadRequest> shareGptRequests(int requests, int maxModelLen, int vocabSize, std::uint64_t seed)
{
    const double scale = std::min(1.0, maxModelLen / 2048.0);
    const auto scaled = [scale](int tokens) { return std::max(static_cast<int>(tokens * scale), 2); };
    LabRandom random(seed);
    std::vector<LoadRequest> list;
    for (const ModelledRequest &lengths : shareGptLengths(requests, 0, seed)) {
        LoadRequest &request = list.emplace_back();
        request.ids.resize(static_cast<std::size_t>(scaled(lengths.promptTokens)));
        for (int &id : request.ids)
            id = random.integer(0, vocabSize - 1);
        request.outputTokens = scaled(lengths.outputTokens);
    }
    return list;
}

} // namespace engine
