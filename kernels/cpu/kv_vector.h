// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cpu/level.h"

#include <immintrin.h>

#include <cstdint>

/// Reading stored keys and values eight at a time. As in vector_avx2.h, no copy of these is shared with other files.
namespace kernels {
namespace {

using F = __m256;
using I = __m256i;

constexpr int quantBlockBytes = 34; // fp16 scale and 32 numbers

/// Eight bytes of E4M3. With its sign apart a byte moved up by 7 is the fp16 of the number / 256.
inline __attribute__((always_inline)) F fromE4m3(__m128i bytes)
{
    const __m128i wide = _mm_cvtepu8_epi16(bytes);
    const __m128i size = _mm_and_si128(wide, _mm_set1_epi16(0x7f));
    const __m128i sign = _mm_slli_epi16(_mm_and_si128(wide, _mm_set1_epi16(0x80)), 8);
    const __m128i notNumber = _mm_and_si128(_mm_cmpeq_epi16(size, _mm_set1_epi16(0x7f)), _mm_set1_epi16(0x7e00));
    const __m128i half = _mm_or_si128(_mm_or_si128(_mm_slli_epi16(size, 7), sign), notNumber);
    return _mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256.0F));
}

inline __attribute__((always_inline)) F scaleOfBlock(const char *block)
{
    return _mm256_set1_ps(_cvtsh_ss(*reinterpret_cast<const std::uint16_t *>(block)));
}

/// Numbers [i, i + 8) of a Quant8 row without their scale.
inline __attribute__((always_inline)) F quantNumbers(const char *row, int i)
{
    const char *numbers = row + i / 32 * quantBlockBytes + 2 + i % 32;
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(numbers))));
}

/// Elements [i, i + 8) of a stored row; i a multiple of 8. Blocks of Quant8 are whole, so all of its reads are.
template<KvValues V> inline __attribute__((always_inline)) F storedEight(const char *row, int i)
{
    if constexpr (V == KvValues::Half)
        return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(row + i * 2)));
    if constexpr (V == KvValues::Brain) {
        const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i *>(row + i * 2));
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
    }
    if constexpr (V == KvValues::Quant8)
        return _mm256_mul_ps(scaleOfBlock(row + i / 32 * quantBlockBytes), quantNumbers(row, i));
    if constexpr (V == KvValues::E4m3)
        return fromE4m3(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(row + i)));
    return _mm256_loadu_ps(reinterpret_cast<const float *>(row) + i);
}

/// The same at the end of a row with `left` elements: zero from there on.
template<KvValues V> inline F storedEightOrZero(const char *row, int i, int left)
{
    if (left >= 8 || V == KvValues::Quant8)
        return storedEight<V>(row, i);
    constexpr int size = V == KvValues::Float ? 4 : V == KvValues::E4m3 ? 1 : 2;
    alignas(32) char padded[32] = {};
    for (int b = 0; b < left * size; ++b)
        padded[b] = row[i * size + b];
    return storedEight<V>(padded, 0);
}

} // namespace
} // namespace kernels
