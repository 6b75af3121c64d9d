// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/level_choice.h"

namespace kernels {

LevelKernels kernelsOf(Isa isa)
{
    switch (isa) {
#if defined(__x86_64__)
    case Isa::Avx2:
        return avx2Kernels();
    case Isa::Avx512:
        return avx512Kernels();
    case Isa::Avx512Vnni:
    case Isa::Amx: // tiles are half empty with scales for every 32 k, so products run on VNNI (kernels/README.md)
        return avx512VnniKernels();
#endif
    default:
        return scalarKernels();
    }
}

} // namespace kernels
