// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/logit_scan_levels.h"
#include "kernels/logit_scans.h"

#include <immintrin.h>

namespace kernels {

namespace {

using Z = __m512;
using D = __m512d;

constexpr std::size_t floats = 16;
constexpr std::size_t doubles = 8;

inline __mmask16 firstFloats(std::size_t left)
{
    return left >= floats ? static_cast<__mmask16>(0xffff) : static_cast<__mmask16>((1U << left) - 1);
}

inline __mmask8 firstDoubles(std::size_t left)
{
    return left >= doubles ? static_cast<__mmask8>(0xff) : static_cast<__mmask8>((1U << left) - 1);
}

bool peaks(const float *x, std::size_t n, float *peaks)
{
    const Z lowest = _mm512_set1_ps(-__builtin_inff());
    const Z highest = _mm512_set1_ps(3.402823466e+38F);
    unsigned faults = 0;
    for (std::size_t first = 0; first < n; first += LogitScans::chunk) {
        const std::size_t end = n - first < LogitScans::chunk ? n : first + LogitScans::chunk;
        Z best[4] = {lowest, lowest, lowest, lowest}; // or each maximum would wait for the one before
        std::size_t i = first;
        for (; i + 4 * floats <= end; i += 4 * floats) {
#pragma GCC unroll 4
            for (std::size_t k = 0; k < 4; ++k) {
                const Z next = _mm512_loadu_ps(x + i + k * floats);
                best[k] = _mm512_max_ps(next, best[k]); // of a NaN and a number the second one
                faults |= _mm512_cmp_ps_mask(next, highest, _CMP_NLE_UQ);
            }
        }
        for (; i < end; i += floats) {
            const __mmask16 mask = firstFloats(end - i);
            const Z next = _mm512_mask_loadu_ps(lowest, mask, x + i);
            best[0] = _mm512_max_ps(next, best[0]);
            faults |= _mm512_cmp_ps_mask(next, highest, _CMP_NLE_UQ);
        }
        *peaks++ =
            _mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(best[0], best[1]), _mm512_max_ps(best[2], best[3])));
    }
    return faults != 0;
}

/// exp(x) = 2^n exp(r), |r| <= ln 2 / 2, with the Taylor series up to r^6: 2e-7 of itself. 0 below -86.
inline __attribute__((always_inline)) Z roughExponential(Z x)
{
    const __mmask16 counts = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-86.0F), _CMP_GT_OQ);
    const Z n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504F)), _MM_FROUND_TO_NEAREST_INT);
    Z r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375F), x); // ln 2 in two parts, the first exact
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4F), r);
    Z p = _mm512_set1_ps(1.0F / 720.0F);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F / 120.0F));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F / 24.0F));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F / 6.0F));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5F));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0F));
    return _mm512_maskz_scalef_ps(counts, p, n);
}

double roughSum(const float *x, std::size_t n, float peak, float factor)
{
    const Z top = _mm512_set1_ps(peak);
    const Z scale = _mm512_set1_ps(factor);
    double total = 0;
    for (std::size_t first = 0; first < n; first += LogitScans::chunk) {
        const std::size_t end = n - first < LogitScans::chunk ? n : first + LogitScans::chunk;
        Z sums[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
        std::size_t i = first;
        for (; i + 2 * floats <= end; i += 2 * floats) {
#pragma GCC unroll 2
            for (std::size_t k = 0; k < 2; ++k) {
                const Z difference = _mm512_sub_ps(_mm512_loadu_ps(x + i + k * floats), top);
                sums[k] = _mm512_add_ps(sums[k], roughExponential(_mm512_mul_ps(difference, scale)));
            }
        }
        for (; i < end; i += floats) {
            const __mmask16 mask = firstFloats(end - i);
            const Z difference = _mm512_sub_ps(_mm512_maskz_loadu_ps(mask, x + i), top);
            sums[0] = _mm512_mask_add_ps(sums[0], mask, sums[0], roughExponential(_mm512_mul_ps(difference, scale)));
        }
        total += static_cast<double>(_mm512_reduce_add_ps(_mm512_add_ps(sums[0], sums[1])));
    }
    return total;
}

/// The same with the series up to r^12, 1e-14 of itself; 0 below -700.
inline __attribute__((always_inline)) D exponential(D x)
{
    const __mmask8 counts = _mm512_cmp_pd_mask(x, _mm512_set1_pd(-700.0), _CMP_GT_OQ);
    const D n = _mm512_roundscale_pd(_mm512_mul_pd(x, _mm512_set1_pd(1.4426950408889634)), _MM_FROUND_TO_NEAREST_INT);
    D r = _mm512_fnmadd_pd(n, _mm512_set1_pd(6.93147180369123816490e-01), x);
    r = _mm512_fnmadd_pd(n, _mm512_set1_pd(1.90821492927058770002e-10), r);
    D p = _mm512_set1_pd(1.0 / 479001600.0);
    const double series[] = {
        1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0,
        1.0 / 120.0,      1.0 / 24.0,      1.0 / 6.0,      0.5,           1.0,          1.0};
#pragma GCC unroll 12
    for (const double coefficient : series)
        p = _mm512_fmadd_pd(p, r, _mm512_set1_pd(coefficient));
    return _mm512_maskz_scalef_pd(counts, p, n);
}

double preciseSum(const float *x, std::size_t n, double peak, double factor)
{
    const D top = _mm512_set1_pd(peak);
    const D scale = _mm512_set1_pd(factor);
    D sums[2] = {_mm512_setzero_pd(), _mm512_setzero_pd()};
    std::size_t i = 0;
    for (; i + 2 * doubles <= n; i += 2 * doubles) {
#pragma GCC unroll 2
        for (std::size_t k = 0; k < 2; ++k) {
            const D difference = _mm512_sub_pd(_mm512_cvtps_pd(_mm256_loadu_ps(x + i + k * doubles)), top);
            sums[k] = _mm512_add_pd(sums[k], exponential(_mm512_mul_pd(difference, scale)));
        }
    }
    for (; i < n; i += doubles) {
        const __mmask8 mask = firstDoubles(n - i);
        const D difference = _mm512_sub_pd(_mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, x + i)), top);
        sums[0] = _mm512_mask_add_pd(sums[0], mask, sums[0], exponential(_mm512_mul_pd(difference, scale)));
    }
    return _mm512_reduce_add_pd(_mm512_add_pd(sums[0], sums[1]));
}

double exponentials(const double *x, std::size_t n, double peak, double factor, double *out)
{
    const D top = _mm512_set1_pd(peak);
    const D scale = _mm512_set1_pd(factor);
    D sum = _mm512_setzero_pd();
    for (std::size_t i = 0; i < n; i += doubles) {
        const __mmask8 mask = firstDoubles(n - i);
        const D difference = _mm512_sub_pd(_mm512_maskz_loadu_pd(mask, x + i), top);
        const D values = exponential(_mm512_mul_pd(difference, scale));
        _mm512_mask_storeu_pd(out + i, mask, values);
        sum = _mm512_mask_add_pd(sum, mask, sum, values);
    }
    return _mm512_reduce_add_pd(sum);
}

void places(const double *x, std::size_t n, double peak, double scale, int last, int *places)
{
    const D most = _mm512_set1_pd(last);
    for (std::size_t i = 0; i < n; i += doubles) {
        const __mmask8 mask = firstDoubles(n - i);
        const D difference = _mm512_sub_pd(_mm512_set1_pd(peak), _mm512_maskz_loadu_pd(mask, x + i));
        const D place = _mm512_min_pd(_mm512_mul_pd(difference, _mm512_set1_pd(scale)), most);
        _mm256_mask_storeu_epi32(places + i, mask, _mm512_cvttpd_epi32(place));
    }
}

std::size_t positions(const int *places, std::size_t n, int place, int *found)
{
    std::size_t count = 0;
    for (std::size_t i = 0; i < n; i += floats) {
        const __mmask16 mask = firstFloats(n - i);
        const __m512i next = _mm512_maskz_loadu_epi32(mask, places + i);
        for (unsigned bits = _mm512_mask_cmpeq_epi32_mask(mask, next, _mm512_set1_epi32(place)); bits != 0;
             bits &= bits - 1)
            found[count++] = static_cast<int>(i) + __builtin_ctz(bits);
    }
    return count;
}

/// Whole vectors are stored, and the next ones over what was too much: compressing stores, and stores that are masked
/// by how many there are, are slower.
std::size_t gather(const float *x, std::size_t n, float limit, int first, int *found, double *values)
{
    const Z least = _mm512_set1_ps(limit);
    __m512i index = _mm512_add_epi32(_mm512_set1_epi32(first),
                                     _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    std::size_t count = 0;
    for (std::size_t i = 0; i < n; i += floats) {
        const __mmask16 mask = firstFloats(n - i);
        const Z logits = _mm512_maskz_loadu_ps(mask, x + i);
        const __mmask16 wanted = _mm512_mask_cmp_ps_mask(mask, logits, least, _CMP_GE_OQ);
        const Z chosen = _mm512_maskz_compress_ps(wanted, logits);
        _mm512_storeu_si512(found + count, _mm512_maskz_compress_epi32(wanted, index));
        _mm512_storeu_pd(values + count, _mm512_cvtps_pd(_mm512_castps512_ps256(chosen)));
        _mm512_storeu_pd(values + count + doubles, _mm512_cvtps_pd(_mm512_extractf32x8_ps(chosen, 1)));
        count += static_cast<std::size_t>(__builtin_popcount(wanted));
        index = _mm512_add_epi32(index, _mm512_set1_epi32(static_cast<int>(floats)));
    }
    return count;
}

} // namespace

void setLogitScansAvx512(LogitScans &scans)
{
    scans = {peaks, roughSum, preciseSum, exponentials, places, positions, gather};
}

} // namespace kernels
