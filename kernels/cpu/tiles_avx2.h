// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <immintrin.h>

namespace kernels {

struct LevelKernels;

/// Set the functions of one file each.
void addFloatKernelsAvx2(LevelKernels &kernels); ///< products with float panels
void addRowKernelsAvx2(LevelKernels &kernels);   ///< row-wise operations
void addKvKernelsAvx2(LevelKernels &kernels);    ///< stored keys and values
void addGatedKernelsAvx2(LevelKernels &kernels); ///< activation functions, layer norm
void addPeakKernelsAvx2(LevelKernels &kernels);  ///< instructions on registers alone

} // namespace kernels
