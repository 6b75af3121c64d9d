// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/activation.h"

#include "kernels/cpu/level.h"

#include <cmath>
#include <numbers>

namespace kernels {

namespace {

float gelu(Activation activation, float x)
{
    if (activation == Activation::GeluErf)
        return 0.5F * x * (1.0F + std::erf(x / std::numbers::sqrt2_v<float>));
    constexpr float rootOfTwoOverPi = 0.7978845608F;
    return 0.5F * x * (1.0F + std::tanh(rootOfTwoOverPi * (x + 0.044715F * x * x * x)));
}

} // namespace

void geluMultiply(Activation activation, float *gate, const float *up, int n)
{
    for (int i = 0; i < n; ++i)
        gate[i] = gelu(activation, gate[i]) * up[i];
}

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
