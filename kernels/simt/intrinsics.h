// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// Atomics (relaxed, as CUDA's are) and arithmetic that CUDA's headers do not offer to g++. Included by simt.h only.

#include <atomic>
#include <bit>
#include <cmath>
#include <numbers>

namespace simt {

template<typename T, typename Change> T atomicChange(T *place, Change change)
{
    std::atomic_ref<T> target(*place);
    T old = target.load(std::memory_order_relaxed);
    while (!target.compare_exchange_weak(old, change(old), std::memory_order_relaxed)) {
    }
    return old;
}

} // namespace simt

template<typename T> T atomicAdd(T *place, std::type_identity_t<T> value)
{
    return simt::atomicChange(place, [&](T old) { return static_cast<T>(old + value); });
}

template<typename T> T atomicMax(T *place, std::type_identity_t<T> value)
{
    return simt::atomicChange(place, [&](T old) { return old < value ? value : old; });
}

template<typename T> T atomicMin(T *place, std::type_identity_t<T> value)
{
    return simt::atomicChange(place, [&](T old) { return value < old ? value : old; });
}

template<typename T> T atomicExch(T *place, std::type_identity_t<T> value)
{
    return std::atomic_ref<T>(*place).exchange(value, std::memory_order_relaxed);
}

template<typename T> T atomicCAS(T *place, std::type_identity_t<T> expected, std::type_identity_t<T> value)
{
    std::atomic_ref<T>(*place).compare_exchange_strong(expected, value, std::memory_order_relaxed);
    return expected;
}

template<typename T> constexpr T min(T a, T b)
{
    return b < a ? b : a;
}

template<typename T> constexpr T max(T a, T b)
{
    return a < b ? b : a;
}

inline float rsqrtf(float x)
{
    return 1.0F / std::sqrt(x);
}

inline void sincospif(float x, float *sine, float *cosine)
{
    *sine = static_cast<float>(std::sin(std::numbers::pi * static_cast<double>(x)));
    *cosine = static_cast<float>(std::cos(std::numbers::pi * static_cast<double>(x)));
}

inline int __popc(unsigned x)
{
    return std::popcount(x);
}

inline int __ffs(unsigned x)
{
    return __builtin_ffs(static_cast<int>(x));
}

inline int __clz(unsigned x)
{
    return std::countl_zero(x);
}

inline float __uint_as_float(unsigned x)
{
    return std::bit_cast<float>(x);
}

inline unsigned __float_as_uint(float x)
{
    return std::bit_cast<unsigned>(x);
}

inline int __float2int_rn(float x)
{
    return static_cast<int>(std::nearbyint(x));
}
