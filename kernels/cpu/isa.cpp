// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/isa.h"

#include "kernels/error.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace kernels {

namespace {

constexpr std::array<std::string_view, 5> isaNames{"scalar", "avx2", "avx512", "avx512-vnni", "amx"};

#if defined(__x86_64__)

struct CpuId {
    std::uint32_t a = 0, b = 0, c = 0, d = 0;
};

CpuId cpuId(std::uint32_t leaf, std::uint32_t subleaf)
{
    CpuId id;
    if (__get_cpuid_count(leaf, subleaf, &id.a, &id.b, &id.c, &id.d) == 0)
        return {};
    return id;
}

bool bit(std::uint32_t word, int index)
{
    return ((word >> index) & 1U) != 0;
}

/// Register state that the operating system saves (XCR0). \pre OSXSAVE
std::uint64_t savedState()
{
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (static_cast<std::uint64_t>(high) << 32) | low;
}

// Linux hands out the tile registers only to processes that ask. Source: Linux, Documentation/arch/x86/xstate.rst.
bool requestTiles()
{
#if defined(__linux__)
    constexpr long requestPermission = 0x1023;
    constexpr long tileData = 18;
    return syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
#else
    return false;
#endif
}

std::vector<Isa> detectX86()
{
    std::vector<Isa> levels{Isa::Scalar};
    const CpuId base = cpuId(1, 0);
    const CpuId extended = cpuId(7, 0);
    if (!bit(base.c, 27)) // OSXSAVE
        return levels;
    const std::uint64_t saved = savedState();
    constexpr std::uint64_t ymmState = 0x06;
    constexpr std::uint64_t zmmState = 0xe6;
    constexpr std::uint64_t tileState = 0x60000;
    const bool fma = bit(base.c, 12) && bit(base.c, 28) && bit(base.c, 29); // FMA, AVX, F16C
    const bool avx2 = fma && bit(extended.b, 5) && bit(extended.b, 8);      // AVX2, BMI2
    if (!avx2 || (saved & ymmState) != ymmState)
        return levels;
    levels.push_back(Isa::Avx2);
    const bool avx512 = bit(extended.b, 16) && bit(extended.b, 17) && bit(extended.b, 28) && bit(extended.b, 30)
        && bit(extended.b, 31); // F, DQ, CD, BW, VL
    if (!avx512 || (saved & zmmState) != zmmState)
        return levels;
    levels.push_back(Isa::Avx512);
    if (!bit(extended.c, 11)) // AVX512_VNNI
        return levels;
    levels.push_back(Isa::Avx512Vnni);
    const bool amx = bit(extended.d, 22) && bit(extended.d, 24) && bit(extended.d, 25); // BF16, TILE, INT8
    if (amx && (saved & tileState) == tileState && requestTiles())
        levels.push_back(Isa::Amx);
    return levels;
}

#endif

std::string listNames(const std::vector<Isa> &levels)
{
    std::string list;
    for (const Isa level : levels)
        list += (list.empty() ? "" : ", ") + std::string(isaName(level));
    return list;
}

} // namespace

std::string_view isaName(Isa isa)
{
    return isaNames.at(static_cast<std::size_t>(isa));
}

bool hasBfloatProducts()
{
#if defined(__x86_64__)
    return bit(cpuId(7, 1).a, 5);
#else
    return false;
#endif
}

bool gainsFromFetches()
{
#if defined(__x86_64__)
    constexpr std::uint32_t genu = 0x756e6547; // the first word of "GenuineIntel"
    return cpuId(0, 0).b == genu;
#else
    return false;
#endif
}

std::vector<Isa> detectIsa()
{
#if defined(__x86_64__)
    return detectX86();
#else
    return {Isa::Scalar};
#endif
}

Isa chooseIsa(std::string_view option)
{
    const std::vector<Isa> levels = detectIsa();
    if (option == "auto")
        return levels.back();
    const auto *const name = std::find(isaNames.begin(), isaNames.end(), option);
    if (name == isaNames.end())
        throw Error(ErrorCode::InvalidArgument,
                    "instruction set '" + std::string(option)
                        + "' is unknown, wanted auto, scalar, avx2, avx512, avx512-vnni or amx");
    const auto wanted = static_cast<Isa>(name - isaNames.begin());
    if (std::find(levels.begin(), levels.end(), wanted) == levels.end())
        throw Error(ErrorCode::NoDevice,
                    "instruction set '" + std::string(option) + "' is not available on this machine, which has "
                        + listNames(levels));
    return wanted;
}

} // namespace kernels
