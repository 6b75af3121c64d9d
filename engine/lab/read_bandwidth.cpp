// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/lab/bench.h"

#include <chrono>
#include <cstdint>
#include <thread>

namespace engine {
namespace {

constexpr std::size_t TotalBytes = 512U << 20U; // far above any last-level cache that one user gets
constexpr int Passes = 5;

std::uint64_t sum(const std::uint64_t *values, std::size_t count)
{
    std::uint64_t a = 0, b = 0, c = 0, d = 0; // four chains, so that loads and not adds are the limit
    for (std::size_t i = 0; i + 8 <= count; i += 8) {
        a += values[i] + values[i + 1];
        b += values[i + 2] + values[i + 3];
        c += values[i + 4] + values[i + 5];
        d += values[i + 6] + values[i + 7];
    }
    return a + b + c + d;
}

} // namespace

double measureReadBandwidth(int threads)
{
    const auto count = static_cast<std::size_t>(threads < 1 ? 1 : threads);
    const std::vector<std::uint64_t> buffer(TotalBytes / sizeof(std::uint64_t), 1);
    const std::size_t share = buffer.size() / count;
    std::vector<std::uint64_t> results(count);
    double best = 0;
    for (int pass = 0; pass < Passes; ++pass) {
        const auto begin = std::chrono::steady_clock::now();
        {
            std::vector<std::jthread> readers;
            for (std::size_t t = 0; t < count; ++t)
                readers.emplace_back([&, t] { results[t] = sum(buffer.data() + t * share, share); });
        }
        const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
        std::uint64_t total = 0;
        for (const std::uint64_t result : results)
            total += result;
        if (total > 0) // uses the sums, so that the reads cannot be left out
            best = std::max(best, static_cast<double>(share * count * sizeof(std::uint64_t)) / elapsed.count());
    }
    return best;
}

} // namespace engine
