// SPDX-License-Identifier: GPL-3.0-or-later
// Built without -fsanitize=thread: TSan is told of the fibers instead.
#include "kernels/simt/fiber.h"

#include <boost/context/detail/fcontext.hpp>

#include <sys/mman.h>

#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(LATHE_SIMT_TSAN)
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
}
#endif

namespace simt {

namespace {

namespace context = boost::context::detail;

constexpr std::size_t pageBytes = 4096;
constexpr int mapFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

/// First on a fresh stack: completes the switch that led here.
void arrive(context::transfer_t transfer, [[maybe_unused]] Fiber *own)
{
    auto *from = static_cast<Fiber *>(transfer.data);
    from->context = transfer.fctx;
#if defined(__SANITIZE_ADDRESS__)
    const void *bottom = nullptr;
    std::size_t size = 0;
    __sanitizer_finish_switch_fiber(own ? own->fakeStack : nullptr, &bottom, &size);
    if (!from->mapped) {
        from->stack = static_cast<const char *>(bottom);
        from->stackBytes = size;
    }
#endif
}

thread_local Fiber *starting = nullptr;

void startFiber(context::transfer_t transfer)
{
    arrive(transfer, nullptr);
    starting->entry();
}

} // namespace

Fiber::Fiber(std::size_t bytes)
    : stackBytes(bytes)
{
#if defined(LATHE_SIMT_TSAN)
    if (bytes == 0)
        checker = __tsan_get_current_fiber();
#endif
    if (bytes == 0)
        return;
    void *memory = mmap(nullptr, bytes + pageBytes, PROT_READ | PROT_WRITE, mapFlags, -1, 0);
    if (memory == MAP_FAILED)
        throw std::bad_alloc();
    mapped = static_cast<char *>(memory);
    mprotect(mapped, pageBytes, PROT_NONE);
    stack = mapped + pageBytes;
}

Fiber::~Fiber()
{
    if (!mapped)
        return;
    allow(stack, stackBytes);
    munmap(mapped, stackBytes + pageBytes);
}

void Fiber::begin(void (*function)())
{
    entry = function;
    fakeStack = nullptr;
    allow(stack, stackBytes); // what an earlier run left poisoned
    context = context::make_fcontext(mapped + pageBytes + stackBytes, stackBytes, startFiber);
#if defined(LATHE_SIMT_TSAN)
    checker = __tsan_create_fiber(0);
#endif
}

void Fiber::finish([[maybe_unused]] bool ended)
{
#if defined(LATHE_SIMT_TSAN)
    if (ended) // one that was abandoned in the middle is leaked: TSan takes it for running
        __tsan_destroy_fiber(checker);
    // A fresh mapping: accesses of the last run must not meet those of the next.
    mmap(mapped + pageBytes, stackBytes, PROT_READ | PROT_WRITE, mapFlags | MAP_FIXED, -1, 0);
#endif
}

bool Fiber::guards(const void *address) const
{
    return mapped && address >= mapped && address < mapped + pageBytes;
}

void switchFiber(Fiber &from, Fiber &to, [[maybe_unused]] bool ends)
{
    starting = &to;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(ends ? nullptr : &from.fakeStack, to.stack, to.stackBytes);
#endif
#if defined(LATHE_SIMT_TSAN)
    __tsan_switch_to_fiber(to.checker, __tsan_switch_to_fiber_no_sync);
#endif
    arrive(context::jump_fcontext(to.context, &from), &from);
}

#if defined(LATHE_SIMT_TSAN)
Quiet::Quiet()
{
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}

Quiet::~Quiet()
{
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
}

void publish(void *address)
{
    __tsan_release(address);
}

void observe(void *address)
{
    __tsan_acquire(address);
}
#else
Quiet::Quiet() { }
Quiet::~Quiet() { }
void publish(void *) { }
void observe(void *) { }
#endif

#if defined(__SANITIZE_ADDRESS__)
void forbid(const void *address, std::size_t bytes)
{
    ASAN_POISON_MEMORY_REGION(address, bytes);
}

void allow(const void *address, std::size_t bytes)
{
    ASAN_UNPOISON_MEMORY_REGION(address, bytes);
}
#else
void forbid(const void *, std::size_t) { }
void allow(const void *, std::size_t) { }
#endif

} // namespace simt
