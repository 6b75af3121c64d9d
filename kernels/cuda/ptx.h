// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// The only place with inline PTX, but for flags (ptx_flags.h). Every wrapper has its meaning for the emulator beside
/// it (those of whole warps in ptx_emulated.h). Source: NVIDIA, PTX ISA 9.0, sections 9.7.9 (cp.async), 9.7.14 (mma,
/// ldmatrix).

#include "kernels/simt/simt.h"

#if SIMT_EMULATED
#include "kernels/cuda/ptx_emulated.h"
#endif

#if defined(__HIP__)
#include "kernels/cuda/hip_ptx.h"
#else

namespace ptx {

#if !SIMT_EMULATED
__device__ __forceinline__ unsigned sharedAddress(const void *pointer)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}
#endif

/// Starts a copy of 16 bytes from global to shared memory; of the source only `sourceBytes` (0..16) are read, the rest
/// of the target becomes zero. Both 16-byte aligned.
__device__ __forceinline__ void copyAsync16(void *target, const void *source, int sourceBytes SIMT_WHERE)
{
#if SIMT_EMULATED
    emulated::checkAligned(target, 16, where);
    emulated::checkAligned(source, 16, where);
    emulated::touch(source, sourceBytes);
    simt::issueCopy(target, source, 16, static_cast<unsigned>(sourceBytes), where);
#else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(sharedAddress(target)), "l"(source),
                 "r"(sourceBytes)
                 : "memory");
#endif
}

/// Ends a group of copies, which may be empty.
__device__ __forceinline__ void commitCopies()
{
#if SIMT_EMULATED
    simt::commitCopies();
#else
    asm volatile("cp.async.commit_group;\n" ::: "memory");
#endif
}

/// Waits until at most `groupsLeft` of the calling thread's groups are under way.
template<int groupsLeft> __device__ __forceinline__ void waitCopies()
{
#if SIMT_EMULATED
    simt::waitCopies(groupsLeft);
#else
    asm volatile("cp.async.wait_group %0;\n" ::"n"(groupsLeft) : "memory");
#endif
}

/// One access of sizeof(V) bytes, aligned to them.
template<typename V, typename T> __device__ __forceinline__ V load(const T *source SIMT_WHERE)
{
#if SIMT_EMULATED
    emulated::checkAligned(source, alignof(V), where);
#endif
    return *reinterpret_cast<const V *>(source);
}

template<typename V, typename T> __device__ __forceinline__ void store(T *target, V value SIMT_WHERE)
{
#if SIMT_EMULATED
    emulated::checkAligned(target, alignof(V), where);
#endif
    *reinterpret_cast<V *>(target) = value;
}

/// 2, 4, 8 or 16 bytes of global memory that nobody writes and that are read once: they push nothing out of the cache
/// beside the cores.
template<typename V> __device__ __forceinline__ V loadOnce(const void *source SIMT_WHERE)
{
#if SIMT_EMULATED
    emulated::checkAligned(source, sizeof(V), where);
    return *static_cast<const V *>(source);
#else
    V v;
    if constexpr (sizeof(V) == 2)
        asm("ld.global.nc.L1::no_allocate.u16 %0, [%1];" : "=h"(v) : "l"(source));
    else if constexpr (sizeof(V) == 4)
        asm("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(source));
    else if constexpr (sizeof(V) == 8)
        asm("ld.global.nc.L1::no_allocate.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(source));
    else
        asm("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
            : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
            : "l"(source));
    return v;
#endif
}

/// 16 bytes of global memory that nobody writes, and that others read too. Stays behind the products before it, so that
/// registers do not fill with what is needed later.
__device__ __forceinline__ uint4 loadOften(const void *source SIMT_WHERE)
{
#if SIMT_EMULATED
    emulated::checkAligned(source, 16, where);
    return *static_cast<const uint4 *>(source);
#else
    uint4 v;
    asm volatile("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(source));
    return v;
#endif
}

/// word & mask | bits, in one instruction.
__device__ __forceinline__ std::uint32_t maskedOr(std::uint32_t word, std::uint32_t mask, std::uint32_t bits)
{
#if SIMT_EMULATED
    return (word & mask) | bits;
#else
    std::uint32_t d;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(word), "r"(mask), "r"(bits));
    return d;
#endif
}

/// a + b of two halves in a word each.
__device__ __forceinline__ std::uint32_t addHalves(std::uint32_t a, std::uint32_t b)
{
#if SIMT_EMULATED
    return emulated::fmaHalves(a, 0x3c003c00U, b);
#else
    std::uint32_t d;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
#endif
}

/// a * b.
__device__ __forceinline__ std::uint32_t multiplyHalves(std::uint32_t a, std::uint32_t b)
{
#if SIMT_EMULATED
    return emulated::fmaHalves(a, b, 0x80008000U);
#else
    std::uint32_t d;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
#endif
}

/// a * b + c, rounded once.
__device__ __forceinline__ std::uint32_t fmaHalves(std::uint32_t a, std::uint32_t b, std::uint32_t c)
{
#if SIMT_EMULATED
    return emulated::fmaHalves(a, b, c);
#else
    std::uint32_t d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
#endif
}

/// Bytes of both words, 0..3 of low and 4..7 of high, by the four numbers of the selector.
__device__ __forceinline__ std::uint32_t permuteBytes(std::uint32_t low, std::uint32_t high, std::uint32_t selector)
{
#if SIMT_EMULATED
    const std::uint64_t bytes = std::uint64_t{high} << 32 | low;
    std::uint32_t d = 0;
    for (unsigned i = 0; i < 4; ++i)
        d |= static_cast<std::uint32_t>(bytes >> 8 * (selector >> 4 * i & 7U) & 0xffU) << 8 * i;
    return d;
#else
    return __byte_perm(low, high, selector);
#endif
}

/// The sum and the products of four int8 in a word each.
__device__ __forceinline__ int dot4(std::uint32_t a, std::uint32_t b, int sum)
{
#if SIMT_EMULATED
    return emulated::dot4(a, b, sum);
#else
    return __dp4a(static_cast<int>(a), static_cast<int>(b), sum);
#endif
}

/// 2^x to about 2 units in the last place; 0 for results below the normal numbers.
__device__ __forceinline__ float exp2Fast(float x)
{
#if SIMT_EMULATED
    return std::exp2(x);
#else
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

/// 1 / x to about a unit in the last place, without the call that a division is. x is a normal number.
__device__ __forceinline__ double reciprocal(double x)
{
#if SIMT_EMULATED
    return 1.0 / x;
#else
    double y;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x)); // some twenty bits; each step doubles them
    y = fma(fma(-x, y, 1.0), y, y);
    y = fma(fma(-x, y, 1.0), y, y);
    return fma(fma(-x, y, 1.0), y, y);
#endif
}

/// Four 8x8 matrices of 16-bit numbers from shared memory. Lane i gives the address of row i % 8 of matrix i / 8 (16
/// bytes, aligned). It gets from matrix j: row i / 4, columns 2 * (i % 4) and the next; transposed: rows and columns
/// change places.
template<bool transposed>
__device__ __forceinline__ void loadMatrices(std::uint32_t (&out)[4], const void *row SIMT_WHERE)
{
#if SIMT_EMULATED
    emulated::loadMatrices<transposed>(out, row, where);
#else
    if constexpr (transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                     : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                     : "r"(sharedAddress(row))
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                     : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                     : "r"(sharedAddress(row))
                     : "memory");
#endif
}

/// d += a b with a [16, 16], b [16, 8], d [16, 8] spread over the warp as m16n8k16 wants them; T is __half or
/// __nv_bfloat16.
template<typename T>
__device__ __forceinline__ void mma16816(float (&d)[4], const std::uint32_t (&a)[4],
                                         const std::uint32_t (&b)[2] SIMT_WHERE)
{
#if SIMT_EMULATED
    emulated::mma16816<T>(d, a, b, where);
#else
    if constexpr (std::is_same_v<T, __half>)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};\n"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};\n"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

/// d += a b with a [16, 32], b [32, 8] of int8 as m16n8k32 wants them.
__device__ __forceinline__ void mma16832(int (&d)[4], const std::uint32_t (&a)[4],
                                         const std::uint32_t (&b)[2] SIMT_WHERE)
{
#if SIMT_EMULATED
    emulated::mma16832(d, a, b, where);
#else
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};\n"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

} // namespace ptx

#include "kernels/cuda/ptx_flags.h"

#endif
