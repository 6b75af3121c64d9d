// SPDX-License-Identifier: GPL-3.0-or-later
// The instructions of the AVX2 products on registers alone: independent sums, enough of them to cover latencies.
#include "kernels/cpu/level.h"
#include "kernels/cpu/tiles_avx2.h"

#include <immintrin.h>

namespace kernels {

namespace {

constexpr int sums = 10;

/// As the byte tiles: products of pairs, pairs of pairs, and their sum, 32 products.
double integerPeak(std::int64_t rounds)
{
    const __m256i one = _mm256_set1_epi16(1);
    __m256i a = _mm256_set1_epi8(3);
    __m256i total[sums];
#pragma GCC unroll 16
    for (__m256i &sum : total)
        sum = _mm256_setzero_si256();
    for (std::int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
        for (__m256i &sum : total) {
            __asm__("" : "+x"(a)); // the same product would be worked out once
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, a), one));
            __asm__("" : "+x"(sum));
        }
    }
#pragma GCC unroll 16
    for (const __m256i &sum : total)
        __asm__ volatile("" : : "x"(sum)); // sums that nobody wants would not be worked out
    return static_cast<double>(rounds) * sums * 64;
}

double floatPeak(std::int64_t rounds)
{
    __m256 a = _mm256_set1_ps(0.5F);
    __m256 total[sums];
#pragma GCC unroll 16
    for (__m256 &sum : total)
        sum = _mm256_setzero_ps();
    for (std::int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
        for (__m256 &sum : total) {
            sum = _mm256_fmadd_ps(a, a, sum);
            __asm__("" : "+x"(sum));
        }
    }
#pragma GCC unroll 16
    for (const __m256 &sum : total)
        __asm__ volatile("" : : "x"(sum)); // sums that nobody wants would not be worked out
    return static_cast<double>(rounds) * sums * 16;
}

} // namespace

void addPeakKernelsAvx2(LevelKernels &kernels)
{
    kernels.integerPeak = integerPeak;
    kernels.floatPeak = floatPeak;
}

} // namespace kernels
