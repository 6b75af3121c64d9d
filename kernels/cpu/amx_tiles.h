// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>

/// Intel's tile registers: eight matrices of at most 16 rows of 64 bytes.
///
/// The seam between products by tiles and what runs them: instructions, or, where LATHE_EMULATED_TILES is defined, the
/// functions of kernels::emulated_tiles, which test builds define in plain C++. So the same source is tested on
/// machines without tiles.
/// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1 chapter 18, and the operations of
/// LDTILECFG, TILELOADD, TILESTORED, TILEZERO, TDPBSSD, TDPBF16PS in volume 2.
namespace kernels {

/// What LDTILECFG reads.
struct TileConfig {
    std::uint8_t palette = 1;
    std::uint8_t startRow = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t rowBytes[16] = {}; ///< of each register; the upper eight do not exist
    std::uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

#if defined(LATHE_EMULATED_TILES)
namespace emulated_tiles {
void configure(const TileConfig &config);
void release();
void zero(int tile);
void load(int tile, const void *base, std::ptrdiff_t stride);
void store(int tile, void *base, std::ptrdiff_t stride);
void addSignedProducts(int sums, int a, int b);
void addBfloatProducts(int sums, int a, int b);
} // namespace emulated_tiles
#endif

namespace tiles {

/// The thread's tile registers take these shapes and become zero.
inline __attribute__((always_inline)) void configure(const TileConfig &config)
{
#if defined(LATHE_EMULATED_TILES)
    emulated_tiles::configure(config);
#else
    __asm__ volatile("ldtilecfg %0" : : "m"(config));
#endif
}

/// Back to the state in which a switch of threads saves no tiles.
inline __attribute__((always_inline)) void release()
{
#if defined(LATHE_EMULATED_TILES)
    emulated_tiles::release();
#else
    __asm__ volatile("tilerelease");
#endif
}

template<int Tile> inline __attribute__((always_inline)) void zero()
{
#if defined(LATHE_EMULATED_TILES)
    emulated_tiles::zero(Tile);
#else
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(Tile));
#endif
}

/// Rows of the register's shape, `stride` bytes apart.
template<int Tile> inline __attribute__((always_inline)) void load(const void *base, std::ptrdiff_t stride)
{
#if defined(LATHE_EMULATED_TILES)
    emulated_tiles::load(Tile, base, stride);
#else
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(base), "r"(stride), "i"(Tile) : "memory");
#endif
}

template<int Tile> inline __attribute__((always_inline)) void store(void *base, std::ptrdiff_t stride)
{
#if defined(LATHE_EMULATED_TILES)
    emulated_tiles::store(Tile, base, stride);
#else
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(base), "r"(stride), "i"(Tile) : "memory");
#endif
}

/// sums[m, n] of 32 bits += sum over k and i < 4 of a[m, 4k + i] x b[k, 4n + i], signed bytes
template<int Sums, int A, int B> inline __attribute__((always_inline)) void addSignedProducts()
{
#if defined(LATHE_EMULATED_TILES)
    emulated_tiles::addSignedProducts(Sums, A, B);
#else
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sums), "i"(A), "i"(B));
#endif
}

/// sums[m, n] of fp32 += sum over k and i < 2 of a[m, 2k + i] x b[k, 2n + i], bfloat16
template<int Sums, int A, int B> inline __attribute__((always_inline)) void addBfloatProducts()
{
#if defined(LATHE_EMULATED_TILES)
    emulated_tiles::addBfloatProducts(Sums, A, B);
#else
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sums), "i"(A), "i"(B));
#endif
}

} // namespace tiles

} // namespace kernels
