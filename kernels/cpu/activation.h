// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/ops.h"

namespace kernels {

/// gate[i] = gelu(gate[i]) x up[i]
void geluMultiply(Activation activation, float *gate, const float *up, int n);

/// Writes one row of a tile (16 floats, of which `count` are outputs): target (+)= tile (+ bias).
void finishRow(const float *tile, const float *bias, int count, bool accumulate, float *target);

} // namespace kernels
