// SPDX-License-Identifier: GPL-3.0-or-later
// Normalisation of rows. Sums are in double: squares of large activations do not fit into a float, and the rows are
// read from memory far slower than they are added.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/reduce.cuh"

namespace kernels::cuda {

/// One block for each row.
template<int threads>
__global__ void __launch_bounds__(threads, 8) rmsNormKernel(RowSpan x, const float *weight, float epsilon, RowSpan out)
{
    const float *source = rowOf(x, static_cast<int>(blockIdx.x));
    float *target = rowOf(out, static_cast<int>(blockIdx.x));
    double squares = 0.0;
    for (int i = static_cast<int>(threadIdx.x); i < x.columns; i += threads)
        squares += static_cast<double>(source[i]) * static_cast<double>(source[i]);
    const double mean = blockSum<threads>(squares) / x.columns;
    const auto factor = static_cast<float>(1.0 / sqrt(mean + static_cast<double>(epsilon)));
    for (int i = static_cast<int>(threadIdx.x); i < x.columns; i += threads)
        target[i] = source[i] * factor * (weight != nullptr ? weight[i] : 1.0F);
}

template<int threads>
__global__ void __launch_bounds__(threads, 8)
    layerNormKernel(RowSpan x, const float *weight, const float *bias, float epsilon, RowSpan out)
{
    const float *source = rowOf(x, static_cast<int>(blockIdx.x));
    float *target = rowOf(out, static_cast<int>(blockIdx.x));
    double sum = 0.0;
    for (int i = static_cast<int>(threadIdx.x); i < x.columns; i += threads)
        sum += static_cast<double>(source[i]);
    const double mean = blockSum<threads>(sum) / x.columns;
    double squares = 0.0;
    for (int i = static_cast<int>(threadIdx.x); i < x.columns; i += threads) {
        const double distance = static_cast<double>(source[i]) - mean;
        squares += distance * distance;
    }
    const double variance = blockSum<threads>(squares) / x.columns;
    const auto factor = static_cast<float>(1.0 / sqrt(variance + static_cast<double>(epsilon)));
    for (int i = static_cast<int>(threadIdx.x); i < x.columns; i += threads) {
        const auto distance = static_cast<float>(static_cast<double>(source[i]) - mean);
        target[i] = fmaf(distance * factor, weight != nullptr ? weight[i] : 1.0F, bias != nullptr ? bias[i] : 0.0F);
    }
}

namespace {

/// Short rows (the heads of q and k) are a warp's work. The choice looks at the length alone, so that a row's sum is
/// the same whatever stands beside it.
constexpr int warpColumns = 256;

dim3 blocksFor(const RowSpan &x)
{
    return dim3(static_cast<unsigned>(x.rows));
}

} // namespace

void launchRmsNorm(const RowSpan &x, const float *weight, float epsilon, const RowSpan &out, StreamHandle stream)
{
    if (x.rows == 0)
        return;
    const bool narrow = x.columns <= warpColumns;
    checkLaunch(simt::launch(narrow ? rmsNormKernel<32> : rmsNormKernel<128>, blocksFor(x), dim3(narrow ? 32 : 128), 0,
                             stream, x, weight, epsilon, out),
                "rmsNorm");
}

void launchLayerNorm(const RowSpan &x, const float *weight, const float *bias, float epsilon, const RowSpan &out,
                     StreamHandle stream)
{
    if (x.rows == 0)
        return;
    const bool narrow = x.columns <= warpColumns;
    checkLaunch(simt::launch(narrow ? layerNormKernel<32> : layerNormKernel<128>, blocksFor(x), dim3(narrow ? 32 : 128),
                             0, stream, x, weight, bias, epsilon, out),
                "layerNorm");
}

} // namespace kernels::cuda
