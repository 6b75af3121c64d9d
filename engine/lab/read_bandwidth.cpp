// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/lab/bench.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <thread>

#include <sys/mman.h>

namespace engine {
namespace {

constexpr std::size_t TotalBytes = 512U << 20U; // far above any last-level cache that one user gets
constexpr std::size_t HugePageBytes = 2U << 20U;
constexpr int Passes = 5;
constexpr std::size_t LineValues = 64 / sizeof(std::uint64_t);
constexpr std::size_t FetchedLines = 128;

struct Free {
    void operator()(std::uint64_t *memory) const { std::free(memory); }
};

/// As weights lie: in huge pages where the system has them.
std::unique_ptr<std::uint64_t, Free> makeBuffer()
{
    std::unique_ptr<std::uint64_t, Free> memory(
        static_cast<std::uint64_t *>(std::aligned_alloc(HugePageBytes, TotalBytes)));
    if (!memory)
        throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
    madvise(memory.get(), TotalBytes, MADV_HUGEPAGE); // a hint
#endif
    std::fill_n(memory.get(), TotalBytes / sizeof(std::uint64_t), 1);
    return memory;
}

/// `fetched`: each line is asked for some time before, beside what the processor foresees; which is faster depends on
/// the processor.
template<bool fetched> std::uint64_t sum(std::span<const std::uint64_t> values)
{
    std::uint64_t a = 0, b = 0, c = 0, d = 0; // four chains, so that loads and not adds are the limit
    for (std::size_t i = 0; i + LineValues <= values.size(); i += LineValues) {
        if constexpr (fetched) // into the second cache; beyond the end it is a hint without effect
            __builtin_prefetch(values.data() + i + FetchedLines * LineValues, 0, 2);
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
    const auto count = static_cast<std::size_t>(std::max(threads, 1));
    const auto buffer = makeBuffer();
    const std::size_t share = TotalBytes / sizeof(std::uint64_t) / count;
    std::vector<std::uint64_t> results(count);
    double best = 0;
    for (int pass = 0; pass < 2 * Passes; ++pass) {
        const auto begin = std::chrono::steady_clock::now();
        {
            std::vector<std::jthread> readers;
            for (std::size_t t = 0; t < count; ++t) {
                const std::span<const std::uint64_t> part(buffer.get() + t * share, share);
                readers.emplace_back([&, t, part] { results[t] = pass % 2 ? sum<true>(part) : sum<false>(part); });
            }
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
