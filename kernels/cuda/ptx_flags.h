// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// Flags and counters that blocks or devices share; a part of ptx.h, which is what to include. Source: NVIDIA, PTX ISA
/// 9.0, section 8 (memory model).

#include "kernels/simt/simt.h"

#include <cstdint>

namespace ptx {

/// A flag of another block or device; what its writer released is seen after it. For polling loops: it lets others run.
__device__ __forceinline__ std::uint32_t loadAcquire(const std::uint32_t *flag)
{
#if SIMT_EMULATED
    simt::pollHint();
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
#else
    std::uint32_t value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
#endif
}

__device__ __forceinline__ void storeRelease(std::uint32_t *flag, std::uint32_t value)
{
#if SIMT_EMULATED
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
#else
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
#endif
}

/// Adds to a counter of this device, ordered with everything before and after it. Returns the old value.
__device__ __forceinline__ std::uint32_t addAcquireRelease(std::uint32_t *counter, std::uint32_t value)
{
#if SIMT_EMULATED
    return __atomic_fetch_add(counter, value, __ATOMIC_ACQ_REL);
#else
    std::uint32_t old;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(counter), "r"(value) : "memory");
    return old;
#endif
}

} // namespace ptx
