// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/finish_row.h"

#include "kernels/cpu/level.h"

namespace kernels {

void finishRow(const float *tile, const float *bias, int count, bool accumulate, float *target)
{
    float row[panelRows];
    for (int c = 0; c < panelRows; ++c)
        row[c] = tile[c];
    if (bias != nullptr) {
        for (int c = 0; c < count; ++c)
            row[c] += bias[c];
    }
    if (accumulate) {
        for (int c = 0; c < count; ++c)
            row[c] += target[c];
    }
    if (count == panelRows) {
        for (int c = 0; c < panelRows; ++c)
            target[c] = row[c];
        return;
    }
    for (int c = 0; c < count; ++c)
        target[c] = row[c];
}

} // namespace kernels
