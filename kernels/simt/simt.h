// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// One kernel source, two targets: nvcc, where this is a thin layer over CUDA, and g++, where every CUDA thread is a
/// fiber of the emulator (kernels/simt/README.md has the rules that kernel code follows).
///
/// SIMT_SHARED(T, name, [dims]) and SIMT_DYNAMIC_SHARED(T, name) declare shared memory, simt::launch starts a kernel.

#if defined(__HIP__)

#include "kernels/cuda/hip.h"

#else

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__CUDACC__)

#define SIMT_EMULATED 0
#define SIMT_SHARED(T, name, ...) __shared__ __align__(16) T name __VA_ARGS__
#define SIMT_DYNAMIC_SHARED(T, name)                                                                                   \
    extern __shared__ __align__(128) unsigned char simtDynamicShared[];                                                \
    T *name = reinterpret_cast<T *>(simtDynamicShared)
/// Parameters and arguments that carry the place of a call to the emulator, and nothing on a device.
#define SIMT_WHERE
#define SIMT_WHERE_ONLY

namespace simt {

/// Queues a kernel. More than 48 KiB of dynamic shared memory are asked for first.
template<typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t sharedBytes, cudaStream_t stream,
                   Arguments &&...arguments)
{
    constexpr std::size_t withoutAsking = 48 * 1024;
    if (sharedBytes > withoutAsking) {
        const cudaError_t error =
            cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(sharedBytes));
        if (error != cudaSuccess)
            return error;
    }
    kernel<<<grid, block, sharedBytes, stream>>>(static_cast<Parameters>(std::forward<Arguments>(arguments))...);
    return cudaGetLastError();
}

} // namespace simt

#else

#define SIMT_EMULATED 1
#include "kernels/simt/device_functions.h"

#endif
#endif
