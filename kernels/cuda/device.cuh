// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// What the kernels share: rows of views, and the check of a launch.

#include "kernels/cuda/launch.h"
#include "kernels/cuda/ptx.h"
#include "kernels/error.h"

namespace kernels::cuda {

__device__ __forceinline__ float *rowOf(const RowSpan &span, int row)
{
    return span.data + row / span.perGroup * span.groupStride + row % span.perGroup * span.rowStride;
}

__device__ __forceinline__ bool isFinite(float value)
{
    return (__float_as_uint(value) & 0x7f800000U) != 0x7f800000U;
}

__device__ __forceinline__ float e4m3ToFloat(unsigned bits)
{
    const float size = __uint_as_float((bits & 0x7fU) << 20) * 1.329227995784916e36F; // 2^120: bias 127 becomes 7
    const float value = (bits & 0x7fU) == 0x7fU ? nanf("") : size;
    return (bits & 0x80U) != 0 ? -value : value;
}

/// Refused launches are faults of ours: shapes are checked before.
inline void checkLaunch(cudaError_t error, const char *kernel)
{
    if (error != cudaSuccess)
        throw Error(ErrorCode::Internal,
                    std::string("kernel ") + kernel + " was not launched: CUDA error "
                        + std::to_string(static_cast<int>(error)));
}

constexpr int roundUp(int value, int step)
{
    return (value + step - 1) / step * step;
}

} // namespace kernels::cuda
