// SPDX-License-Identifier: GPL-3.0-or-later
// Rotary embedding. Source: Su et al. 2021, arXiv:2104.09864; all scalings are in the frequencies.
#include "kernels/cuda/device.cuh"

namespace kernels::cuda {

namespace {

constexpr int threads = 128;

} // namespace

/// One thread for each pair of elements. The angle is reduced to a part of a turn in double: a float of position times
/// frequency would be off by whole degrees at long contexts.
__global__ void __launch_bounds__(threads) ropeKernel(RowSpan heads, RopeArguments rope)
{
    const int half = rope.rotaryDim / 2;
    const int at = static_cast<int>(blockIdx.x * threads + threadIdx.x);
    if (at >= heads.rows * half)
        return;
    const int row = at / half;
    const int i = at % half;
    double turns = static_cast<double>(rope.positions[row / heads.perGroup]) * rope.turns[i];
    turns -= rint(turns);
    float sine = 0.0F;
    float cosine = 0.0F;
    sincospif(static_cast<float>(2.0 * turns), &sine, &cosine);
    sine *= rope.attentionFactor;
    cosine *= rope.attentionFactor;
    float *head = rowOf(heads, row);
    float &first = head[rope.interleaved ? 2 * i : i];
    float &second = head[rope.interleaved ? 2 * i + 1 : i + half];
    const float a = first;
    const float b = second;
    first = fmaf(a, cosine, -(b * sine));
    second = fmaf(a, sine, b * cosine);
}

void launchRope(const RowSpan &heads, const RopeArguments &rope, StreamHandle stream)
{
    const int pairs = heads.rows * (rope.rotaryDim / 2);
    if (pairs == 0)
        return;
    checkLaunch(simt::launch(ropeKernel, dim3(static_cast<unsigned>((pairs + threads - 1) / threads)), dim3(threads), 0,
                             stream, heads, rope),
                "rope");
}

} // namespace kernels::cuda
