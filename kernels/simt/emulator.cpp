// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/simt/emulator.h"

#include "kernels/simt/fault_signal.h"
#include "kernels/simt/worker.h"

#include <algorithm>
#include <thread>

namespace simt {

namespace {

constexpr std::size_t mostThreads = 1024; // of a block; also the limits of a grid are CUDA's
constexpr unsigned mostRows = 65535;

std::string shapeOf(const dim3 &size)
{
    return std::to_string(size.x) + "x" + std::to_string(size.y) + "x" + std::to_string(size.z);
}

void check(const Launch &launch, const Config &config)
{
    const std::size_t threads = std::size_t{launch.block.x} * launch.block.y * launch.block.z;
    if (threads == 0 || threads > mostThreads)
        throw Fault("a launch with blocks of " + shapeOf(launch.block) + " threads, wanted 1 to 1024 in all");
    if (launch.grid.x == 0 || launch.grid.y == 0 || launch.grid.z == 0 || launch.grid.y > mostRows
        || launch.grid.z > mostRows)
        throw Fault("a launch of " + shapeOf(launch.grid) + " blocks, wanted 1 or more and at most 65535 in y and z");
    if (launch.sharedBytes > config.sharedBytes)
        throw Fault("a launch with " + std::to_string(launch.sharedBytes) + " bytes of dynamic shared memory, wanted "
                    + std::to_string(config.sharedBytes) + " at most");
}

/// Blocks in the order in which workers take them.
void listBlocks(Run &run, const Config &config)
{
    for (unsigned number = 0; number < run.launches->size(); ++number) {
        const Launch &launch = (*run.launches)[number];
        check(launch, config);
        for (unsigned block = 0; block < launch.grid.x * launch.grid.y * launch.grid.z; ++block)
            run.order.emplace_back(number, block);
    }
    if (config.schedule == Schedule::Fifo)
        return;
    // A linear congruential generator. Source: Knuth, The Art of Computer Programming 2, section 3.3.4 (MMIX).
    std::uint64_t state = config.seed * 2862933555777941757U + 3037000493U;
    for (std::size_t i = run.order.size(); i > 1; --i) {
        state = state * 6364136223846793005U + 1;
        std::swap(run.order[i - 1], run.order[(state >> 33) % i]);
    }
}

} // namespace

Emulator::Emulator(const Config &config)
    : m_config(config)
    , m_pool(std::make_unique<Pool>())
{
}

Emulator::~Emulator() = default;

void Emulator::run(std::vector<Launch> launches, bool coresident)
{
    if (Worker::current())
        throw Fault("a kernel launches a kernel, which is not emulated");
    if (m_capture) {
        m_capture(std::move(launches), coresident);
        return;
    }
    Run run;
    run.launches = &launches;
    run.coresident = coresident;
    run.pool = m_pool.get();
    listBlocks(run, m_config);
    if (m_config.onRun)
        m_config.onRun(true);
    publish(&run.tag);
    // Blocks that wait for one another share a worker. Workers are never the calling thread: sanitizers want its stack
    // to stay what it is.
    const std::size_t workers =
        coresident ? 1 : std::min<std::size_t>(std::max(1U, m_config.workers), run.order.size());
    std::vector<std::thread> threads;
    for (unsigned number = 0; number < workers; ++number)
        threads.emplace_back([&run, this, number] {
            const FaultSignal signals;
            Worker(run, m_config, number).work();
        });
    for (std::thread &thread : threads)
        thread.join();
    observe(&run.tag);
    if (m_config.onRun)
        m_config.onRun(false);
    m_counts = run.counts;
    if (run.failed)
        throw Fault(run.error);
}

} // namespace simt
