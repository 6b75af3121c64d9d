// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace kernels {

/// Writes one row of a tile (16 floats, of which `count` are outputs): target (+)= tile (+ bias).
void finishRow(const float *tile, const float *bias, int count, bool accumulate, float *target);

} // namespace kernels
