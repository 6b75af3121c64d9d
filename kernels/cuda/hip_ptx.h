// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// The wrappers of ptx.h for AMD GPUs. Copies are done when they are started, tiles are multiplied without matrix
/// cores.

#include "kernels/cuda/plain_tiles.h"

namespace ptx {

template<typename V, typename T> __device__ __forceinline__ V load(const T *source)
{
    return *reinterpret_cast<const V *>(source);
}

template<typename V, typename T> __device__ __forceinline__ void store(T *target, V value)
{
    *reinterpret_cast<V *>(target) = value;
}

__device__ __forceinline__ void copyAsync16(void *target, const void *source, int sourceBytes)
{
    uint4 numbers = make_uint4(0, 0, 0, 0);
    if (sourceBytes == 16)
        numbers = load<uint4>(source);
    else
        for (int i = 0; i < sourceBytes; ++i)
            reinterpret_cast<unsigned char *>(&numbers)[i] = static_cast<const unsigned char *>(source)[i];
    store(target, numbers);
}

__device__ __forceinline__ void commitCopies() { }

template<int groupsLeft> __device__ __forceinline__ void waitCopies() { }

__device__ __forceinline__ float exp2Fast(float x)
{
    return exp2f(x);
}

__device__ __forceinline__ double reciprocal(double x)
{
    double y = __builtin_amdgcn_rcp(x); // some twenty bits; each step doubles them
    y = fma(fma(-x, y, 1.0), y, y);
    y = fma(fma(-x, y, 1.0), y, y);
    return fma(fma(-x, y, 1.0), y, y);
}

template<bool transposed> __device__ __forceinline__ void loadMatrices(std::uint32_t (&out)[4], const void *row)
{
    plain::loadMatrices<transposed>(out, row);
}

template<typename T>
__device__ __forceinline__ void mma16816(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2])
{
    plain::mma16816<T>(d, a, b);
}

__device__ __forceinline__ void mma16832(int (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2])
{
    plain::mma16832(d, a, b);
}

__device__ __forceinline__ std::uint32_t loadAcquire(const std::uint32_t *flag)
{
    const std::uint32_t value = __atomic_load_n(flag, __ATOMIC_ACQUIRE); // of the whole system
    __builtin_amdgcn_s_sleep(1);
    return value;
}

__device__ __forceinline__ void storeRelease(std::uint32_t *flag, std::uint32_t value)
{
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

__device__ __forceinline__ std::uint32_t addAcquireRelease(std::uint32_t *counter, std::uint32_t value)
{
    return __atomic_fetch_add(counter, value, __ATOMIC_ACQ_REL);
}

} // namespace ptx
