// SPDX-License-Identifier: GPL-3.0-or-later
// Activations for the tensor cores.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch_experts.h"
#include "kernels/cuda/reduce.cuh"

namespace kernels::cuda {

namespace {

constexpr int threads = 128;

} // namespace

/// The power of two that takes a row's largest number to [0.5, 1), or below 4 where it would be no normal number; 1 for
/// rows of zeros, of tiny numbers and with an infinity.
__device__ float scaleFor(float largest)
{
    const int exponent = min(static_cast<int>(__float_as_uint(largest) >> 23 & 0xffU) - 126, 126);
    const bool usable = largest > 0.0F && isFinite(largest) && exponent > -120;
    return __uint_as_float(static_cast<unsigned>(usable ? 127 - exponent : 127) << 23);
}

template<typename T> __device__ __forceinline__ T narrow(float value)
{
    if constexpr (std::is_same_v<T, __half>)
        return __float2half_rn(value);
    else
        return __float2bfloat16_rn(value);
}

template<typename T> __device__ __forceinline__ float widen(T value)
{
    if constexpr (std::is_same_v<T, __half>)
        return __half2float(value);
    else
        return __bfloat162float(value);
}

/// The largest size of a row's numbers, of all threads of the block; infinite where one is infinite or no number.
__device__ __forceinline__ float largestOf(const float *row, int columns, float (&warpLargest)[threads / 32])
{
    float largest = 0.0F;
    for (int i = static_cast<int>(threadIdx.x); i < columns; i += threads)
        largest = fmaxf(largest, isFinite(row[i]) ? fabsf(row[i]) : INFINITY);
    largest = warpMax(largest);
    if (threadIdx.x % 32 == 0)
        warpLargest[threadIdx.x / 32] = largest;
    __syncthreads(); // of all warps
    for (int warp = 0; warp < threads / 32; ++warp)
        largest = fmaxf(largest, warpLargest[warp]);
    return largest;
}

/// One block for each row, four columns at a time.
__global__ void __launch_bounds__(threads, 8)
    roundKernel(RowSpan x, const int *order, float fixedScale, ExpertScales experts, CastRows out)
{
    SIMT_SHARED(float, warpLargest, [threads / 32]);
    const int row = static_cast<int>(blockIdx.x);
    const float *source = rowOf(x, row / experts.rowsPerToken);
    if (experts.scales != nullptr)
        fixedScale = experts.scales[experts.ids[row]];
    const float largest = largestOf(source, x.columns, warpLargest);
    const bool usable = isFinite(largest) && largest > 1e-35F; // of smaller ones the quotient would be infinite
    const float perUnit = !usable ? 0.0F : fixedScale > 0.0F ? 1.0F / fixedScale : 127.0F / largest;
    auto *target = static_cast<std::int8_t *>(out.numbers) + static_cast<std::int64_t>(row) * out.columns;
    for (int i = static_cast<int>(threadIdx.x) * 4; i < out.columns; i += threads * 4) {
        unsigned word = 0;
        for (int j = 0; j < 4 && usable; ++j) {
            const float value = i + j < x.columns ? source[order != nullptr ? order[i + j] : i + j] : 0.0F;
            const float number = fminf(fmaxf(value * perUnit, -127.0F), 127.0F);
            word |= (static_cast<unsigned>(__float2int_rn(number)) & 0xffU) << 8 * j;
        }
        ptx::store(target + i, word);
    }
    if (threadIdx.x == 0)
        out.scales[row] = !isFinite(largest) ? nanf("") : fixedScale > 0.0F ? fixedScale : largest / 127.0F;
}

/// One block for each row.
template<typename T> __global__ void __launch_bounds__(threads, 8) castKernel(RowSpan x, const int *order, CastRows out)
{
    SIMT_SHARED(float, warpLargest, [threads / 32]);
    const int row = static_cast<int>(blockIdx.x);
    const float *source = rowOf(x, row);
    const float scale = scaleFor(largestOf(source, x.columns, warpLargest));
    T *target = static_cast<T *>(out.numbers) + static_cast<std::int64_t>(row) * out.terms * out.columns;
    for (int i = static_cast<int>(threadIdx.x); i < out.columns; i += threads) {
        const float value = i < x.columns ? source[order != nullptr ? order[i] : i] * scale : 0.0F;
        const T first = narrow<T>(value);
        target[i] = first;
        if (out.terms > 1)
            target[out.columns + i] = narrow<T>(value - widen(first));
    }
    if (threadIdx.x == 0)
        out.scales[row] = 1.0F / scale;
}

void launchCast(const RowSpan &x, const int *order, bool bf16, const CastRows &out, StreamHandle stream)
{
    if (x.rows == 0)
        return;
    checkLaunch(simt::launch(bf16 ? castKernel<__nv_bfloat16> : castKernel<__half>, dim3(static_cast<unsigned>(x.rows)),
                             dim3(threads), 0, stream, x, order, out),
                "cast");
}

void launchRound(const RowSpan &x, const int *order, float fixedScale, const CastRows &out, StreamHandle stream)
{
    CHECK(out.terms == 1);
    if (x.rows > 0)
        checkLaunch(simt::launch(roundKernel, dim3(static_cast<unsigned>(x.rows)), dim3(threads), 0, stream, x, order,
                                 fixedScale, ExpertScales(), out),
                    "round");
}

void launchRoundForExperts(const RowSpan &x, const ExpertScales &scales, const CastRows &out, StreamHandle stream)
{
    CHECK(out.terms == 1 && out.rows == x.rows * scales.rowsPerToken);
    if (out.rows > 0)
        checkLaunch(simt::launch(roundKernel, dim3(static_cast<unsigned>(out.rows)), dim3(threads), 0, stream, x,
                                 nullptr, 0.0F, scales, out),
                    "round");
}

} // namespace kernels::cuda
