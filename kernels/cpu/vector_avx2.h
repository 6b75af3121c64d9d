// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <immintrin.h>

#include <cstdint>

/// Pieces of the AVX2 files. They stand in an unnamed namespace, so that no copy of them is shared with other files.
namespace kernels {
namespace {

using F = __m256;
using I = __m256i;

// exp(x) = 2^n exp(r), |r| <= ln 2 / 2, with the Taylor series up to r^7 (5e-9 relative). Below -87 the result is 0, as
// masked scores of attention need; NaN stays NaN because the second operand of min and max wins.
inline __attribute__((always_inline)) F exponential(F x)
{
    const F lowest = _mm256_set1_ps(-87.0F);
    const F clamped = _mm256_max_ps(lowest, _mm256_min_ps(_mm256_set1_ps(88.0F), x));
    const F n = _mm256_round_ps(_mm256_mul_ps(clamped, _mm256_set1_ps(1.44269504F)),
                                _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    F r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375F), clamped); // ln 2 in two parts, the first exact
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4F), r);
    F p = _mm256_set1_ps(1.0F / 5040.0F);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0F / 720.0F));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0F / 120.0F));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0F / 24.0F));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0F / 6.0F));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5F));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0F));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0F));
    const I power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    const F result = _mm256_mul_ps(p, _mm256_castsi256_ps(power));
    return _mm256_and_ps(result, _mm256_cmp_ps(x, lowest, _CMP_NLT_UQ));
}

/// The first `left` of eight floats.
inline __attribute__((always_inline)) I firstOnes(std::int64_t left)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(left)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/// Largest magnitude of a block as the bits of a float: whole numbers order them, NaN above infinity above all.
inline int largestBits(const F (&v)[4])
{
    const I magnitude = _mm256_set1_epi32(0x7fffffff);
    I largest = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
        largest = _mm256_max_epi32(largest, _mm256_and_si256(_mm256_castps_si256(v[i]), magnitude));
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1)));
}

} // namespace
} // namespace kernels
