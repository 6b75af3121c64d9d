// SPDX-License-Identifier: GPL-3.0-or-later
// Built without -fsanitize=thread, as all of the emulator.
#include "kernels/simt/worker.h"

#include "kernels/simt/simt.h"

#include <algorithm>
#include <optional>
#include <thread>

namespace simt {

namespace {

thread_local Worker *currentWorker = nullptr;

constexpr unsigned idleRoundsAllowed = 20000; // of pollers alone, before they count as stuck
constexpr unsigned idleRoundsBusy = 100;      // after that the processor goes to other workers in between

constexpr std::size_t stackFactor = underAsan ? 4 : (underTsan ? 2 : 1);

uint3 positionOf(unsigned number, const dim3 &size)
{
    return {number % size.x, number / size.x % size.y, number / size.x / size.y};
}

/// The oldest copy of a lane that is still under way, or null. Groups without copies wait for nothing.
const AsyncCopy *copyUnderWay(const Lane &lane)
{
    for (const std::vector<AsyncCopy> &group : lane.groups)
        if (!group.empty())
            return &group.front();
    return lane.open.empty() ? nullptr : &lane.open.front();
}

} // namespace

Worker::Worker(Run &run, const Config &config, unsigned number)
    : m_run(run)
    , m_config(config)
    , m_random((config.seed + number + 1) * 0x9e3779b97f4a7c15U)
    , m_stackBytes(config.stackBytes * stackFactor)
{
}

Worker *Worker::current()
{
    return currentWorker;
}

std::uint64_t Worker::random()
{
    // xorshift64. Source: Marsaglia 2003, Journal of Statistical Software 8(14).
    m_random ^= m_random << 13;
    m_random ^= m_random >> 7;
    m_random ^= m_random << 17;
    return m_random;
}

void Worker::recordError(const std::string &message)
{
    const std::lock_guard lock(m_run.mutex);
    if (m_run.error.empty())
        m_run.error = message;
    m_run.failed = true;
    m_stopped = true;
}

void Worker::wake(Lane &lane)
{
    lane.state = Lane::State::Ready;
    m_ready.push_back(&lane);
    m_idleRounds = 0;
}

bool Worker::pollersMayRun()
{
    if (!m_ready.empty() || m_polling.empty() || m_stopped)
        return true;
    if (++m_idleRounds > idleRoundsAllowed) {
        recordError("a polling loop is never satisfied, for example of " + nameOf(*m_polling.front())
                    + ": its flag is never set, or the blocks are not all resident");
        return false;
    }
    if (m_idleRounds > idleRoundsBusy)
        std::this_thread::yield();
    m_ready.swap(m_polling);
    return true;
}

std::size_t Worker::choose()
{
    switch (m_config.schedule) {
    case Schedule::Fifo:
        return 0;
    case Schedule::Lifo:
        return m_ready.size() - 1;
    case Schedule::Random:
        return random() % m_ready.size();
    case Schedule::Starve:
        break;
    }
    const std::size_t first = random() % m_ready.size();
    for (std::size_t i = 0; i < m_ready.size(); ++i) {
        const std::size_t at = (first + i) % m_ready.size();
        if (m_ready[at]->rank / 32 != m_ready[at]->block->starvedWarp)
            return at;
    }
    return first;
}

Lane *Worker::pick()
{
    if (!pollersMayRun() || m_ready.empty() || m_stopped)
        return nullptr;
    const std::size_t at = choose();
    Lane *lane = m_ready[at];
    if (m_config.schedule == Schedule::Fifo) {
        m_ready.pop_front();
    } else {
        m_ready[at] = m_ready.back();
        m_ready.pop_back();
    }
    return lane;
}

void Worker::jump(Lane *to, bool ends)
{
    Fiber &from = m_current ? m_current->fiber : m_main;
    m_current = to;
    ++m_counts.switches;
    if (to) {
        threadIdx = to->index;
        blockIdx = to->block->index;
        blockDim = to->block->dimensions;
        gridDim = to->block->grid;
    }
    switchFiber(from, to ? to->fiber : m_main, ends);
}

void Worker::reschedule()
{
    Lane *next = pick();
    if (next != m_current)
        jump(next, false);
}

void Worker::maybeReschedule()
{
    if (m_config.schedule == Schedule::Fifo || !(random() & 1U))
        return;
    wake(*m_current);
    reschedule();
}

void Worker::poll()
{
    // At times not, or a thread that waits for too little would find every time that all others have come.
    if (m_config.schedule != Schedule::Fifo && (random() & 1U))
        return;
    m_polling.push_back(m_current);
    reschedule();
}

void Worker::checkEnd(const Lane &lane)
{
    if (const AsyncCopy *copy = copyUnderWay(lane))
        recordError(nameOf(lane) + ": a thread exits with a copy that nobody waited for [" + placeOf(copy->where)
                    + "]");
    if (lane.block->arrived > 0)
        recordError(nameOf(lane) + ": a thread exits while others wait at __syncthreads ["
                    + placeOf(lane.block->barrierWhere) + "]");
    for (const PendingOperation &pending : lane.block->warps[lane.rank / 32].pending)
        if (pending.mask >> (lane.rank & 31U) & 1U)
            recordError(nameOf(lane) + ": a thread exits while its warp waits for it [" + placeOf(pending.where) + "]");
}

void Worker::leave(Lane &lane)
{
    lane.state = Lane::State::Done;
    publish(&m_run.tag);
    Block &block = *lane.block;
    block.warps[lane.rank / 32].exited |= 1U << (lane.rank & 31U);
    if (--block.alive > 0)
        return;
    --m_resident;
    if (!block.shared.redZonesIntact())
        recordError(nameOf(lane) + ": shared memory was written beyond the end of an array");
}

void Worker::runLane(Lane &lane)
{
    std::optional<Quiet> quiet(std::in_place);
    try {
        quiet.reset();
        lane.block->launch->body();
        quiet.emplace();
        checkEnd(lane);
    } catch (const Fault &fault) {
        quiet.emplace();
        recordError(fault.what());
    } catch (const std::exception &error) {
        quiet.emplace();
        recordError(nameOf(lane) + ": " + error.what());
    }
    leave(lane);
}

void Worker::laneEntry()
{
    Worker &worker = *currentWorker;
    worker.runLane(*worker.m_current);
    Lane *next = nullptr;
    {
        const Quiet quiet;
        next = worker.pick();
    }
    worker.jump(next, true);
}

Block *Worker::takeBlock()
{
    const std::lock_guard lock(m_run.mutex);
    if (m_run.pool->blocks.empty())
        return new Block;
    Block *block = m_run.pool->blocks.back();
    m_run.pool->blocks.pop_back();
    return block;
}

Lane *Worker::takeLane()
{
    const std::lock_guard lock(m_run.mutex);
    std::vector<Lane *> &lanes = m_run.pool->lanes;
    while (!lanes.empty()) {
        Lane *lane = lanes.back();
        lanes.pop_back();
        if (lane->fiber.stackBytes == m_stackBytes)
            return lane;
        delete lane;
    }
    return new Lane(m_stackBytes);
}

void Worker::fillLanes(Block &block)
{
    const dim3 &size = block.launch->block;
    for (unsigned rank = 0; rank < block.lanes.size(); ++rank) {
        Lane *lane = block.lanes[rank] = takeLane();
        lane->block = &block;
        lane->rank = rank;
        lane->index = positionOf(rank, size);
        lane->where = Location();
        lane->open.clear();
        lane->groups.clear();
        lane->fiber.begin(laneEntry);
        wake(*lane);
    }
}

bool Worker::startBlock()
{
    const std::size_t at = m_run.next++;
    if (at >= m_run.order.size())
        return false;
    Block &block = *m_live.emplace_back(takeBlock());
    const Launch &launch = (*m_run.launches)[m_run.order[at].first];
    const auto threads = launch.block.x * launch.block.y * launch.block.z;
    block.launch = &launch;
    block.index = positionOf(m_run.order[at].second, launch.grid);
    block.dimensions = {launch.block.x, launch.block.y, launch.block.z};
    block.grid = {launch.grid.x, launch.grid.y, launch.grid.z};
    block.alive = threads;
    block.arrived = 0;
    block.warps.assign((threads + 31) / 32, Warp());
    block.starvedWarp = static_cast<unsigned>(random() % block.warps.size());
    block.slots.clear();
    block.shared.reset(m_config.sharedBytes + launch.sharedBytes);
    block.dynamic = launch.sharedBytes > 0 ? block.shared.carve(launch.sharedBytes, 128, m_config.poison) : nullptr;
    block.lanes.assign(threads, nullptr);
    ++m_resident;
    fillLanes(block);
    return true;
}

void Worker::endBlock(Block &block)
{
    for (Lane *lane : block.lanes)
        lane->fiber.finish(lane->state == Lane::State::Done);
    const std::lock_guard lock(m_run.mutex);
    m_run.pool->lanes.insert(m_run.pool->lanes.end(), block.lanes.begin(), block.lanes.end());
    block.lanes.clear();
    if (underTsan) // fresh addresses: barriers and shared memory of one block must not order those of the next
        delete &block;
    else
        m_run.pool->blocks.push_back(&block);
}

void Worker::reportDeadlock()
{
    std::string message = "deadlock or divergent barrier:";
    int shown = 0;
    unsigned lastLine = 0;
    for (const Block *block : m_live) {
        for (const Lane *lane : block->lanes) {
            if (lane->state == Lane::State::Done || shown >= 6 || (shown > 0 && lane->where.line() == lastLine))
                continue;
            message += "\n  " + nameOf(*lane)
                + (lane->state == Lane::State::AtBarrier ? " at __syncthreads " : " in a warp operation ")
                + placeOf(lane->where);
            lastLine = lane->where.line();
            ++shown;
        }
    }
    recordError(message);
}

void Worker::runBlocks()
{
    if (Lane *lane = pick())
        jump(lane, false);
    if (!m_stopped && m_resident > 0)
        reportDeadlock();
    for (Block *block : m_live)
        endBlock(*block);
    m_live.clear();
    m_ready.clear();
    m_polling.clear();
}

void Worker::work()
{
    currentWorker = this;
    while (!m_run.failed && startBlock()) {
        while (m_run.coresident && startBlock()) {
        }
        runBlocks();
    }
    currentWorker = nullptr;
    const std::lock_guard lock(m_run.mutex);
    m_run.counts.switches += m_counts.switches;
    m_run.counts.warpOperations += m_counts.warpOperations;
    m_run.counts.barriers += m_counts.barriers;
    m_run.counts.asyncCopies += m_counts.asyncCopies;
    m_run.counts.bankConflicts += m_counts.bankConflicts;
}

} // namespace simt
