// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/level_choice.h"

namespace kernels {

namespace {

constexpr int rowFetchBytes = 8192; // 4096 and 16384 are as good

LevelKernels functionsOf(Isa isa)
{
    switch (isa) {
#if defined(__x86_64__)
    case Isa::Avx2:
        return avx2Kernels();
    case Isa::Avx512:
        return avx512Kernels();
    case Isa::Avx512Vnni:
        return avx512VnniKernels();
    case Isa::Amx:
        return amxKernels();
#endif
    default:
        return scalarKernels();
    }
}

} // namespace

LevelKernels kernelsOf(Isa isa)
{
    LevelKernels kernels = functionsOf(isa);
    kernels.fetchBytes = gainsFromFetches() ? rowFetchBytes : 0;
    return kernels;
}

} // namespace kernels
