// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/simt/simt.h"

namespace kernels::cuda {

/// Sum over the warp, in every lane; the order is fixed.
template<typename T> __device__ __forceinline__ T warpSum(T value)
{
    for (int distance = 16; distance > 0; distance /= 2)
        value += __shfl_xor_sync(~0U, value, distance);
    return value;
}

__device__ __forceinline__ float warpMax(float value)
{
    for (int distance = 16; distance > 0; distance /= 2)
        value = fmaxf(value, __shfl_xor_sync(~0U, value, distance));
    return value;
}

/// Sum over a block of `threads`, in every thread. To be reached by all of them.
template<int threads> __device__ __forceinline__ double blockSum(double value)
{
    value = warpSum(value);
    if constexpr (threads == 32) {
        return value;
    } else {
        SIMT_SHARED(double, sums, [threads / 32]);
        __syncthreads(); // readers of an earlier sum are done
        if (threadIdx.x % 32 == 0)
            sums[threadIdx.x / 32] = value;
        __syncthreads();
        double total = 0.0;
        for (int warp = 0; warp < threads / 32; ++warp)
            total += sums[warp];
        return total;
    }
}

} // namespace kernels::cuda
