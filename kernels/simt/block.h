// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/simt/emulator.h"
#include "kernels/simt/fiber.h"
#include "kernels/simt/hooks.h"

#include <array>
#include <deque>
#include <utility>

/// The state of one block and its threads while they run. Owned by one worker.
namespace simt {

struct Block;

struct AsyncCopy {
    void *target;
    const void *source;
    unsigned targetBytes;
    unsigned sourceBytes; ///< the rest of the target becomes zero
    Location where;
};

/// One CUDA thread.
struct Lane {
    enum class State { Ready, InWarpOperation, AtBarrier, Done };

    explicit Lane(std::size_t stackBytes)
        : fiber(stackBytes)
    {
    }

    Fiber fiber;
    Block *block = nullptr;
    uint3 index{};
    unsigned rank = 0;
    State state = State::Done;
    Location where; ///< of its last synchronisation
    int predicate = 0;
    std::vector<AsyncCopy> open;               ///< issued, not yet committed
    std::deque<std::vector<AsyncCopy>> groups; ///< committed, oldest first
};

/// A warp operation that some of its lanes have come to.
struct PendingOperation {
    unsigned mask = 0;
    unsigned arrived = 0;
    int operation = 0;
    Location where;
    unsigned tag = 0;
    std::array<void *, 32> arguments{};
};

struct Warp {
    unsigned exited = 0;
    unsigned operations = 0;
    std::array<std::uint64_t, 8> tags{}; ///< addresses for TSan; several, or a fast lane would lend its later writes
    std::vector<PendingOperation> pending;
};

/// Shared memory of one block, with a red zone on both sides of every array.
class SharedMemory {
public:
    ~SharedMemory();
    /// Everything out of bounds again, with room for `bytes` and their red zones.
    void reset(std::size_t bytes);
    [[nodiscard]] void *carve(std::size_t bytes, std::size_t alignment, bool poison);
    /// Whether no red zone was written to; under ASan writing there ends the program at once.
    [[nodiscard]] bool redZonesIntact() const;
    void release();

private:
    char *m_memory = nullptr;
    std::size_t m_capacity = 0;
    std::size_t m_used = 0;
    std::vector<char *> m_redZones;
};

struct Block {
    uint3 index{};
    uint3 dimensions{};
    uint3 grid{};
    const Launch *launch = nullptr;
    std::vector<Lane *> lanes;
    std::vector<Warp> warps;
    unsigned alive = 0;
    unsigned starvedWarp = ~0U;

    unsigned arrived = 0; ///< at the barrier
    Barrier barrierKind = Barrier::Plain;
    int barrierResult = 0;
    Location barrierWhere;
    std::array<std::uint64_t, 2> barrierTags{};
    unsigned phase = 0;

    SharedMemory shared;
    void *dynamic = nullptr;
    std::vector<std::pair<void *, std::size_t>> slots; ///< static arrays
};

struct Pool {
    ~Pool();
    std::vector<Lane *> lanes; ///< stacks are costly to map
    std::vector<Block *> blocks;
};

/// "file:line"
[[nodiscard]] std::string placeOf(const Location &where);
/// "block (x,y,z) thread (x,y,z)"
[[nodiscard]] std::string nameOf(const Lane &lane);

} // namespace simt
