// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <source_location>
#include <string>

/// What device code asks of the emulator. All are called by the fiber of a CUDA thread.
namespace simt {

using Location = std::source_location;

/// Ends the launch with a Fault that names the calling thread and the place.
[[noreturn]] void fail(const std::string &what, const Location &where = Location::current());

[[nodiscard]] unsigned laneId();
[[nodiscard]] void *dynamicShared();
/// Numbers a declaration of static shared memory.
[[nodiscard]] unsigned newSharedSlot();
[[nodiscard]] void *staticShared(unsigned slot, std::size_t bytes, std::size_t alignment);

/// Computes a warp operation for all lanes of `mask`; called by the last of them to arrive.
using WarpFunction = void (*)(void **arguments, unsigned mask);
/// Waits until all lanes of `mask` have come with the same operation from the same line.
void warpOperation(unsigned mask, int operation, void *arguments, WarpFunction function, const Location &where);
constexpr int syncWarp = 0; ///< the one warp operation that orders memory

enum class Barrier { Plain, And, Or, Count };
/// __syncthreads and its forms. Returns the predicate over the block.
int blockBarrier(Barrier kind, int predicate, const Location &where);

/// To be called in every loop that polls memory: lets everybody else run first.
void pollHint();

/// cp.async: the target is poison from here until the wait.
void issueCopy(void *target, const void *source, unsigned targetBytes, unsigned sourceBytes, const Location &where);
void commitCopies();
void waitCopies(unsigned groupsLeft);

void countBankConflicts(unsigned conflicts);

} // namespace simt
