// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/fault_guard.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace engine {

/// One guarded mapping. Slots are reused and never freed, so that the handler may walk the list at any moment.
struct MappingSlot {
    std::atomic<std::uintptr_t> begin{0}; ///< 0: free; 1: taken, not guarded yet
    std::atomic<std::uintptr_t> end{0};
    std::atomic<bool> damaged{false};
    MappingSlot *next = nullptr; ///< set before the slot is published
};

namespace {

// A signal handler has no argument of ours, so what it needs must be reachable without one.
std::atomic<MappingSlot *> slots{nullptr};
std::once_flag installed;
struct sigaction previousAction;

static_assert(std::atomic<std::uintptr_t>::is_always_lock_free && std::atomic<MappingSlot *>::is_always_lock_free);

MappingSlot *findSlot(std::uintptr_t address)
{
    for (MappingSlot *slot = slots.load(std::memory_order_acquire); slot != nullptr; slot = slot->next) {
        const std::uintptr_t begin = slot->begin.load(std::memory_order_acquire);
        const std::uintptr_t end = slot->end.load(std::memory_order_acquire);
        // The second look at `begin` rejects a slot that another thread is reusing meanwhile.
        if (begin > 1 && address >= begin && address < end && slot->begin.load(std::memory_order_acquire) == begin)
            return slot;
    }
    return nullptr;
}

/// Puts zero pages from the faulting page to the end of the mapping: what lies behind a cut is gone as well, and one
/// call keeps the number of mappings small. The raw system call is used because sanitizers wrap mmap().
bool replaceByZeros(std::uintptr_t address, std::uintptr_t end)
{
    const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    const std::uintptr_t start = address & ~(page - 1);
    return syscall(SYS_mmap, start, end - start, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != -1;
}

void passOn(int signal, siginfo_t *information, void *context)
{
    if ((previousAction.sa_flags & SA_SIGINFO) != 0) {
        previousAction.sa_sigaction(signal, information, context);
    } else if (previousAction.sa_handler != SIG_DFL && previousAction.sa_handler != SIG_IGN) {
        previousAction.sa_handler(signal);
    } else {
        // The faulting instruction runs again and ends the process as it would have without us.
        struct sigaction standard = {};
        standard.sa_handler = SIG_DFL;
        sigaction(SIGBUS, &standard, nullptr);
        if (information->si_code <= 0) // sent by a process: nothing faults again by itself
            raise(SIGBUS);
    }
}

void onBusError(int signal, siginfo_t *information, void *context)
{
    const int savedErrno = errno;
    if (information->si_code > 0) { // raised by a memory access, so si_addr is set
        const auto address = reinterpret_cast<std::uintptr_t>(information->si_addr);
        MappingSlot *slot = findSlot(address);
        if (slot != nullptr && replaceByZeros(address, slot->end.load(std::memory_order_acquire))) {
            slot->damaged.store(true, std::memory_order_release);
            errno = savedErrno;
            return;
        }
    }
    errno = savedErrno;
    passOn(signal, information, context);
}

void installHandler()
{
    struct sigaction action = {};
    action.sa_sigaction = onBusError;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previousAction);
}

MappingSlot *takeSlot()
{
    for (MappingSlot *slot = slots.load(std::memory_order_acquire); slot != nullptr; slot = slot->next) {
        std::uintptr_t isFree = 0;
        if (slot->begin.compare_exchange_strong(isFree, 1))
            return slot;
    }
    auto *slot = new MappingSlot;
    slot->begin.store(1);
    slot->next = slots.load();
    while (!slots.compare_exchange_weak(slot->next, slot)) {
    }
    return slot;
}

} // namespace

MappingSlot *guardMapping(const std::byte *data, std::size_t size)
{
    std::call_once(installed, installHandler);
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    MappingSlot *slot = takeSlot();
    slot->damaged.store(false);
    slot->end.store(reinterpret_cast<std::uintptr_t>(data) + (size + page - 1) / page * page);
    slot->begin.store(reinterpret_cast<std::uintptr_t>(data), std::memory_order_release);
    return slot;
}

bool isDamaged(const MappingSlot *slot)
{
    return slot->damaged.load(std::memory_order_acquire);
}

void releaseGuard(MappingSlot *slot)
{
    slot->begin.store(0, std::memory_order_release);
}

} // namespace engine
