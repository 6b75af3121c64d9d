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

template<typename V> __device__ __forceinline__ V loadOnce(const void *source)
{
    return *static_cast<const V *>(source);
}

__device__ __forceinline__ uint4 loadOften(const void *source)
{
    return *static_cast<const uint4 *>(source);
}

__device__ __forceinline__ std::uint32_t maskedOr(std::uint32_t word, std::uint32_t mask, std::uint32_t bits)
{
    return (word & mask) | bits;
}

using Halves = _Float16 __attribute__((ext_vector_type(2)));

__device__ __forceinline__ std::uint32_t addHalves(std::uint32_t a, std::uint32_t b)
{
    return __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(Halves, a) + __builtin_bit_cast(Halves, b));
}

__device__ __forceinline__ std::uint32_t multiplyHalves(std::uint32_t a, std::uint32_t b)
{
    return __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(Halves, a) * __builtin_bit_cast(Halves, b));
}

__device__ __forceinline__ std::uint32_t fmaHalves(std::uint32_t a, std::uint32_t b, std::uint32_t c)
{
    const auto x = __builtin_bit_cast(Halves, a);
    const auto y = __builtin_bit_cast(Halves, b);
    const auto z = __builtin_bit_cast(Halves, c);
    Halves d = {};
    for (int i = 0; i < 2; ++i)
        d[i] = static_cast<_Float16>(__builtin_fmaf16(x[i], y[i], z[i]));
    return __builtin_bit_cast(std::uint32_t, d);
}

__device__ __forceinline__ std::uint32_t permuteBytes(std::uint32_t low, std::uint32_t high, std::uint32_t selector)
{
    const std::uint64_t bytes = std::uint64_t{high} << 32 | low;
    std::uint32_t d = 0;
    for (unsigned i = 0; i < 4; ++i)
        d |= static_cast<std::uint32_t>(bytes >> 8 * (selector >> 4 * i & 7U) & 0xffU) << 8 * i;
    return d;
}

__device__ __forceinline__ int dot4(std::uint32_t a, std::uint32_t b, int sum)
{
#if defined(__gfx906__) || defined(__gfx90a__) || defined(__gfx1030__)
    return __builtin_amdgcn_sdot4(static_cast<int>(a), static_cast<int>(b), sum, false);
#else
    for (int byte = 0; byte < 4; ++byte)
        sum += plain::byteProduct(a, b, byte);
    return sum;
#endif
}

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
