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
        return avx512VnniKernels();
    case Isa::Amx:
        return amxKernels();
#endif
    default:
        return scalarKernels();
    }
}

} // namespace kernels
