// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>

namespace simt {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool underAsan = true;
#else
constexpr bool underAsan = false;
#endif
#if defined(LATHE_SIMT_TSAN)
constexpr bool underTsan = true;
#else
constexpr bool underTsan = false;
#endif

/// A stack to run on, or with `mapped` null the stack of a thread of the system. The sanitizers know each as such.
struct Fiber {
    explicit Fiber(std::size_t stackBytes); ///< 0 = stands for the calling thread's own stack
    ~Fiber();
    Fiber(const Fiber &) = delete;
    Fiber &operator=(const Fiber &) = delete;

    /// The next switch to it begins at `entry`, which must not return. `argument` is what entry() gets.
    void begin(void (*entry)());
    /// After its end: the stack is as fresh, for the checkers.
    void finish(bool ended);
    /// Whether an address lies on the page below the stack, which overflows hit.
    [[nodiscard]] bool guards(const void *address) const;

    void *context = nullptr;
    const char *stack = nullptr;
    std::size_t stackBytes = 0;
    char *mapped = nullptr;
    void *fakeStack = nullptr; ///< ASan's
    void *checker = nullptr;   ///< TSan's
    void (*entry)() = nullptr;
};

/// Goes on in `to`; returns when somebody switches back to `from`. `ends`: nobody will.
void switchFiber(Fiber &from, Fiber &to, bool ends);

/// While it lives, what the emulator itself reads and writes is hidden from TSan. One for each stay in the emulator.
class Quiet {
public:
    Quiet();
    ~Quiet();
    Quiet(const Quiet &) = delete;
    Quiet &operator=(const Quiet &) = delete;
};

/// Happens-before, seen by TSan, from every release to a later acquire of the same address.
void publish(void *address);
void observe(void *address);

/// Marks memory as out of bounds, or as usable again.
void forbid(const void *address, std::size_t bytes);
void allow(const void *address, std::size_t bytes);

} // namespace simt
