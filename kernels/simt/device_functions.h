// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// CUDA's device side for g++: built-in variables, shared memory, barriers, launches. Included by simt.h only.

#include "kernels/simt/emulator.h"
#include "kernels/simt/hooks.h"

#include <cstring>
#include <tuple>

#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __shared__
#define __shared__ static_assert(false, "use SIMT_SHARED or SIMT_DYNAMIC_SHARED");
#define SIMT_SHARED(T, name, ...)                                                                                      \
    std::type_identity_t<T __VA_ARGS__> &name = ::simt::staticSharedOf<T __VA_ARGS__>([] { })
#define SIMT_DYNAMIC_SHARED(T, name) T *name = reinterpret_cast<T *>(::simt::dynamicShared())
#define SIMT_WHERE , const ::simt::Location &where = ::simt::Location::current()
#define SIMT_WHERE_ONLY const ::simt::Location &where = ::simt::Location::current()

inline thread_local constinit uint3 threadIdx{};
inline thread_local constinit uint3 blockIdx{};
inline thread_local constinit uint3 blockDim{};
inline thread_local constinit uint3 gridDim{};
inline constexpr int warpSize = 32;

namespace simt {

/// The bytes of arguments. Where the compiler cannot say which of them are padding, none.
template<typename... Values> std::vector<std::byte> bytesOf(const std::tuple<Values...> &values)
{
    std::vector<std::byte> bytes;
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
    const auto add = [&bytes](auto value) {
        if constexpr (!std::is_empty_v<decltype(value)>) {
            __builtin_clear_padding(&value);
            const std::size_t first = bytes.size();
            bytes.resize(first + sizeof value);
            std::memcpy(bytes.data() + first, &value, sizeof value);
        }
    };
    std::apply([&](const Values &...each) { (add(each), ...); }, values);
#endif
#endif
    return bytes;
}

/// A kernel with its arguments, copied as a launch copies them.
template<typename... Parameters, typename... Arguments>
Launch bind(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t sharedBytes, Arguments &&...arguments)
{
    std::tuple<std::decay_t<Parameters>...> values(std::forward<Arguments>(arguments)...);
    Launch launch{grid, block, sharedBytes, [kernel, values] { std::apply(kernel, values); }, nullptr, {}};
    launch.kernel = reinterpret_cast<const void *>(kernel);
    return launch;
}

/// \throws Fault what the emulator found wrong with the kernel
template<typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t sharedBytes, cudaStream_t stream,
                   Arguments &&...arguments)
{
    Emulator &device = Emulator::of(stream);
    std::vector<Launch> launches{simt::bind(kernel, grid, block, sharedBytes, arguments...)};
    if (device.captures())
        launches[0].arguments = bytesOf(std::tuple<std::decay_t<Parameters>...>(arguments...));
    device.run(std::move(launches), false);
    return cudaSuccess;
}

/// `Site` is the type of a lambda, so each declaration in each template instance has a slot of its own.
template<typename T, typename Site> T &staticSharedOf(Site)
{
    static const unsigned slot = newSharedSlot();
    return *static_cast<T *>(staticShared(slot, sizeof(T), alignof(T) < 16 ? 16 : alignof(T)));
}

} // namespace simt

inline void __syncthreads(SIMT_WHERE_ONLY)
{
    simt::blockBarrier(simt::Barrier::Plain, 0, where);
}

inline int __syncthreads_and(int predicate SIMT_WHERE)
{
    return simt::blockBarrier(simt::Barrier::And, predicate, where);
}

inline int __syncthreads_or(int predicate SIMT_WHERE)
{
    return simt::blockBarrier(simt::Barrier::Or, predicate, where);
}

inline int __syncthreads_count(int predicate SIMT_WHERE)
{
    return simt::blockBarrier(simt::Barrier::Count, predicate, where);
}

#include "kernels/simt/intrinsics.h"
#include "kernels/simt/warp_functions.h"
