// SPDX-License-Identifier: GPL-3.0-or-later
// What device code asks of the emulator. Built without -fsanitize=thread.
#include "kernels/simt/hooks.h"

#include "kernels/simt/worker.h"

#include <atomic>
#include <bit>
#include <cstring>

namespace simt {

namespace {

Worker &worker()
{
    return *Worker::current();
}

void releaseBarrier(Block &block)
{
    ++worker().counts().barriers;
    block.arrived = 0;
    ++block.phase;
    int count = 0;
    for (const Lane *lane : block.lanes)
        count += lane->predicate != 0 ? 1 : 0;
    const bool all = count == static_cast<int>(block.lanes.size());
    block.barrierResult = block.barrierKind == Barrier::Count ? count
        : block.barrierKind == Barrier::And                   ? (all ? 1 : 0)
                                                              : (count > 0 ? 1 : 0);
    for (Lane *lane : block.lanes)
        worker().wake(*lane);
}

/// The operation that the lanes of `mask` are coming to; the first of them makes it.
PendingOperation &pendingFor(Warp &warp, unsigned mask, int operation, const Location &where)
{
    for (PendingOperation &pending : warp.pending) {
        if (!(pending.mask & mask))
            continue;
        if (pending.mask != mask || pending.operation != operation || pending.where.line() != where.line())
            fail("divergent warp operation: lane " + std::to_string(std::countr_zero(pending.arrived)) + " waits at "
                     + placeOf(pending.where) + " with another operation or mask",
                 where);
        return pending;
    }
    return warp.pending.emplace_back(
        PendingOperation{mask, 0, operation, where, warp.operations++ % static_cast<unsigned>(warp.tags.size()), {}});
}

/// The mask without lanes that a last, partial warp lacks, after checking it.
unsigned checkedMask(const Lane &lane, unsigned mask, const Location &where)
{
    const unsigned first = lane.rank & ~31U;
    const auto threads = static_cast<unsigned>(lane.block->lanes.size());
    if (!(mask >> (lane.rank & 31U) & 1U))
        fail("warp operation: the calling lane is not in its own mask", where);
    if (threads - first < 32)
        mask &= (1U << (threads - first)) - 1;
    const unsigned gone = lane.block->warps[lane.rank / 32].exited & mask;
    if (gone)
        fail("warp operation: lane " + std::to_string(std::countr_zero(gone)) + " of the mask has exited", where);
    return mask;
}

} // namespace

void fail(const std::string &what, const Location &where)
{
    const bool known = Worker::current() && worker().inKernel();
    throw Fault((known ? nameOf(worker().lane()) + ": " : std::string()) + what + " [" + placeOf(where) + "]");
}

unsigned laneId()
{
    return worker().lane().rank & 31U;
}

void *dynamicShared()
{
    void *memory = worker().lane().block->dynamic;
    if (!memory)
        fail("the kernel uses dynamic shared memory but was launched with 0 bytes of it");
    return memory;
}

unsigned newSharedSlot()
{
    static std::atomic<unsigned> next{0};
    return next++;
}

void *staticShared(unsigned slot, std::size_t bytes, std::size_t alignment)
{
    const Quiet quiet;
    Block &block = *worker().lane().block;
    if (block.slots.size() <= slot)
        block.slots.resize(slot + 1);
    if (block.slots[slot].first)
        return block.slots[slot].first;
    std::size_t total = bytes + block.launch->sharedBytes;
    for (const auto &other : block.slots)
        total += other.second;
    if (total > worker().config().sharedBytes)
        fail("the kernel wants " + std::to_string(total) + " bytes of shared memory");
    block.slots[slot] = {block.shared.carve(bytes, alignment, worker().config().poison), bytes};
    return block.slots[slot].first;
}

void warpOperation(unsigned mask, int operation, void *arguments, WarpFunction function, const Location &where)
{
    const Quiet quiet;
    Lane &own = worker().lane();
    Warp &warp = own.block->warps[own.rank / 32];
    const unsigned lane = own.rank & 31U;
    mask = checkedMask(own, mask, where);
    own.where = where;
    PendingOperation &pending = pendingFor(warp, mask, operation, where);
    pending.arrived |= 1U << lane;
    pending.arguments[lane] = arguments;
    std::uint64_t *tag = &warp.tags[pending.tag];
    if (operation == syncWarp)
        publish(tag);
    if (pending.arrived != mask) {
        own.state = Lane::State::InWarpOperation;
        worker().reschedule();
        if (operation == syncWarp)
            observe(tag);
        return;
    }
    ++worker().counts().warpOperations;
    PendingOperation done = pending;
    warp.pending.erase(warp.pending.begin() + (&pending - warp.pending.data()));
    if (function)
        function(done.arguments.data(), mask);
    if (operation == syncWarp)
        observe(tag);
    for (unsigned other = 0; other < 32; ++other)
        if ((mask >> other & 1U) && other != lane)
            worker().wake(*own.block->lanes[(own.rank & ~31U) + other]);
    worker().maybeReschedule();
}

int blockBarrier(Barrier kind, int predicate, const Location &where)
{
    const Quiet quiet;
    Lane &own = worker().lane();
    Block &block = *own.block;
    own.where = where;
    own.predicate = predicate;
    if (block.alive != block.lanes.size())
        fail("__syncthreads after some threads of the block exited", where);
    if (block.arrived > 0 && (block.barrierWhere.line() != where.line() || block.barrierKind != kind))
        fail("divergent __syncthreads: others wait at " + placeOf(block.barrierWhere), where);
    block.barrierWhere = where;
    block.barrierKind = kind;
    own.state = Lane::State::AtBarrier;
    // Two addresses by turns: a fast lane at the next barrier must not be ordered with a slow one at this.
    std::uint64_t *tag = &block.barrierTags[block.phase & 1U];
    publish(tag);
    if (++block.arrived == block.lanes.size())
        releaseBarrier(block);
    worker().reschedule();
    observe(tag);
    return block.barrierResult;
}

void pollHint()
{
    const Quiet quiet;
    worker().poll();
}

void issueCopy(void *target, const void *source, unsigned targetBytes, unsigned sourceBytes, const Location &where)
{
    ++worker().counts().asyncCopies;
    if (worker().config().poison)
        std::memset(target, 0xff, targetBytes);
    const Quiet quiet;
    worker().lane().open.push_back({target, source, targetBytes, sourceBytes, where});
}

void commitCopies()
{
    const Quiet quiet;
    Lane &lane = worker().lane();
    lane.groups.push_back(std::move(lane.open));
    lane.open.clear();
}

void waitCopies(unsigned groupsLeft)
{
    Lane &lane = worker().lane();
    while (lane.groups.size() > groupsLeft) {
        std::vector<AsyncCopy> group;
        {
            const Quiet quiet;
            group = std::move(lane.groups.front());
            lane.groups.pop_front();
        }
        // Not hidden from TSan: the copies are the kernel's accesses.
        for (const AsyncCopy &copy : group) {
            std::memcpy(copy.target, copy.source, copy.sourceBytes);
            std::memset(static_cast<char *>(copy.target) + copy.sourceBytes, 0, copy.targetBytes - copy.sourceBytes);
        }
        const Quiet quiet;
        group = {};
    }
}

void countBankConflicts(unsigned conflicts)
{
    worker().counts().bankConflicts += conflicts;
}

} // namespace simt
