// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// AMD GPUs: the names of CUDA that kernels use, in terms of HIP. simt.h includes it in the place of CUDA's headers
/// when hipcc or clang compiles a kernel as HIP, ptx.h takes hip_ptx.h then. It is compiled in tests and has never run.
///
/// Kernels count in warps of 32 lanes. Where the hardware's have 64, each half is one: shuffles stay within 32 lanes
/// and a vote is the caller's half of the wide one. All lanes of a half take part, so masks are not looked at.

#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#undef __launch_bounds__ // HIP's second number is another than CUDA's
#define __launch_bounds__(threads, ...) __attribute__((amdgpu_flat_work_group_size(1, threads)))

#define __popc __builtin_popcount // an int, as CUDA's is

#define SIMT_EMULATED 0
#define SIMT_SHARED(T, name, ...) __shared__ __attribute__((aligned(16))) T name __VA_ARGS__
#define SIMT_DYNAMIC_SHARED(T, name)                                                                                   \
    extern __shared__ __attribute__((aligned(128))) unsigned char simtDynamicShared[];                                 \
    T *name = reinterpret_cast<T *>(simtDynamicShared)
#define SIMT_WHERE
#define SIMT_WHERE_ONLY

struct CUstream_st; ///< hipStream_t under the name that launchers take

using cudaError_t = hipError_t;
using cudaStream_t = CUstream_st *;
constexpr hipError_t cudaSuccess = hipSuccess;

// Warps.

/// Lane among the 32 or 64 of the hardware's warp.
__device__ __forceinline__ unsigned hardwareLane()
{
    return __builtin_amdgcn_mbcnt_hi(~0U, __builtin_amdgcn_mbcnt_lo(~0U, 0U));
}

/// What lane `source` of the hardware's warp has, word by word.
template<typename T> __device__ __forceinline__ T ofLane(T value, unsigned source)
{
    static_assert(sizeof(T) % 4 == 0 && std::is_trivially_copyable_v<T>);
    int words[sizeof(T) / 4];
    __builtin_memcpy(words, &value, sizeof value);
    for (int &word : words)
        word = __builtin_amdgcn_ds_bpermute(static_cast<int>(source * 4), word);
    __builtin_memcpy(&value, words, sizeof value);
    return value;
}

template<typename T> __device__ __forceinline__ T __shfl_sync(unsigned, T value, int source)
{
    return ofLane(value, (hardwareLane() & ~31U) | (static_cast<unsigned>(source) & 31U));
}

template<typename T> __device__ __forceinline__ T __shfl_xor_sync(unsigned, T value, int bits)
{
    return ofLane(value, hardwareLane() ^ static_cast<unsigned>(bits));
}

template<typename T> __device__ __forceinline__ T __shfl_up_sync(unsigned, T value, int distance)
{
    const unsigned lane = hardwareLane();
    const auto down = static_cast<unsigned>(distance);
    return ofLane(value, (lane & 31U) < down ? lane : lane - down);
}

__device__ __forceinline__ unsigned __ballot_sync(unsigned, int predicate)
{
    const unsigned long long found = __ballot(predicate); // upper half 0 on warps of 32
    return static_cast<unsigned>(found >> (hardwareLane() & 32U));
}

__device__ __forceinline__ int __all_sync(unsigned, int predicate)
{
    return __ballot_sync(~0U, predicate) == ~0U;
}

/// Lanes run together; what is left is to keep memory accesses in their order.
__device__ __forceinline__ void __syncwarp()
{
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
    __builtin_amdgcn_wave_barrier();
}

// bfloat16, which HIP 5.2 has not.

struct __nv_bfloat16 {
    std::uint16_t bits;
};
struct __nv_bfloat162 {
    __nv_bfloat16 x, y;
};

__device__ __forceinline__ __nv_bfloat16 __float2bfloat16_rn(float value)
{
    const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value);
    if ((bits & 0x7fffffffU) > 0x7f800000U)
        return {0x7fff};
    return {static_cast<std::uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16)};
}

__device__ __forceinline__ float __bfloat162float(__nv_bfloat16 value)
{
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(value.bits) << 16);
}

__device__ __forceinline__ unsigned short __bfloat16_as_ushort(__nv_bfloat16 value)
{
    return value.bits;
}

__device__ __forceinline__ __nv_bfloat162 __floats2bfloat162_rn(float low, float high)
{
    return {__float2bfloat16_rn(low), __float2bfloat16_rn(high)};
}

namespace simt {

/// Queues a kernel.
template<typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t sharedBytes, cudaStream_t stream,
                   Arguments &&...arguments)
{
    constexpr std::size_t mostShared = 64 * 1024; // of a block on all AMD GPUs of today
    if (sharedBytes > mostShared)
        return hipErrorInvalidConfiguration;
    kernel<<<grid, block, sharedBytes, reinterpret_cast<hipStream_t>(stream)>>>(
        static_cast<Parameters>(std::forward<Arguments>(arguments))...);
    return hipGetLastError();
}

} // namespace simt
