// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/logit_scan_levels.h"
#include "kernels/cpu/vector_avx2.h"
#include "kernels/logit_scans.h"

#include <immintrin.h>

namespace kernels {

namespace {

using D = __m256d;

constexpr std::size_t floats = 8;
constexpr std::size_t doubles = 4;

inline float largestOf(F v)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

inline double sumOf(D v)
{
    const __m128d halves = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(halves, _mm_unpackhi_pd(halves, halves)));
}

inline D widened(F v)
{
    return _mm256_add_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(v)), _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)));
}

bool peaks(const float *x, std::size_t n, float *peaks)
{
    const F lowest = _mm256_set1_ps(-__builtin_inff());
    const F highest = _mm256_set1_ps(3.402823466e+38F);
    F faults = _mm256_setzero_ps();
    for (std::size_t first = 0; first < n; first += LogitScans::chunk) {
        const std::size_t end = n - first < LogitScans::chunk ? n : first + LogitScans::chunk;
        F best[4] = {lowest, lowest, lowest, lowest}; // or each maximum would wait for the one before
        std::size_t i = first;
        for (; i + 4 * floats <= end; i += 4 * floats) {
#pragma GCC unroll 4
            for (std::size_t k = 0; k < 4; ++k) {
                const F next = _mm256_loadu_ps(x + i + k * floats);
                best[k] = _mm256_max_ps(next, best[k]); // of a NaN and a number the second one
                faults = _mm256_or_ps(faults, _mm256_cmp_ps(next, highest, _CMP_NLE_UQ));
            }
        }
        for (; i < end; i += floats) {
            const F mask = _mm256_castsi256_ps(firstOnes(static_cast<std::int64_t>(end - i)));
            const F next = _mm256_blendv_ps(lowest, _mm256_maskload_ps(x + i, _mm256_castps_si256(mask)), mask);
            best[0] = _mm256_max_ps(next, best[0]);
            faults = _mm256_or_ps(faults, _mm256_cmp_ps(next, highest, _CMP_NLE_UQ));
        }
        *peaks++ = largestOf(_mm256_max_ps(_mm256_max_ps(best[0], best[1]), _mm256_max_ps(best[2], best[3])));
    }
    return _mm256_movemask_ps(faults) != 0;
}

double roughSum(const float *x, std::size_t n, float peak, float factor)
{
    const F top = _mm256_set1_ps(peak);
    const F scale = _mm256_set1_ps(factor);
    D total = _mm256_setzero_pd();
    for (std::size_t first = 0; first < n; first += LogitScans::chunk) {
        const std::size_t end = n - first < LogitScans::chunk ? n : first + LogitScans::chunk;
        F sums[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
        std::size_t i = first;
        for (; i + 2 * floats <= end; i += 2 * floats) {
#pragma GCC unroll 2
            for (std::size_t k = 0; k < 2; ++k) {
                const F difference = _mm256_sub_ps(_mm256_loadu_ps(x + i + k * floats), top);
                sums[k] = _mm256_add_ps(sums[k], exponential(_mm256_mul_ps(difference, scale)));
            }
        }
        for (; i < end; i += floats) {
            const I mask = firstOnes(static_cast<std::int64_t>(end - i));
            const F difference = _mm256_sub_ps(_mm256_maskload_ps(x + i, mask), top);
            const F values = exponential(_mm256_mul_ps(difference, scale));
            sums[0] = _mm256_add_ps(sums[0], _mm256_and_ps(values, _mm256_castsi256_ps(mask)));
        }
        total = _mm256_add_pd(total, widened(_mm256_add_ps(sums[0], sums[1])));
    }
    return sumOf(total);
}

/// exp(x) = 2^n exp(r), |r| <= ln 2 / 2, with the Taylor series up to r^12: 1e-14 of itself. 0 below -700.
inline __attribute__((always_inline)) D precise(D x)
{
    const D lowest = _mm256_set1_pd(-700.0);
    const D bounded = _mm256_max_pd(x, lowest);
    const D n = _mm256_round_pd(_mm256_mul_pd(bounded, _mm256_set1_pd(1.4426950408889634)),
                                _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    D r = _mm256_fnmadd_pd(n, _mm256_set1_pd(6.93147180369123816490e-01), bounded); // ln 2 in two parts
    r = _mm256_fnmadd_pd(n, _mm256_set1_pd(1.90821492927058770002e-10), r);
    D p = _mm256_set1_pd(1.0 / 479001600.0);
    const double series[] = {
        1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0,
        1.0 / 120.0,      1.0 / 24.0,      1.0 / 6.0,      0.5,           1.0,          1.0};
#pragma GCC unroll 12
    for (const double coefficient : series)
        p = _mm256_fmadd_pd(p, r, _mm256_set1_pd(coefficient));
    const I power =
        _mm256_slli_epi64(_mm256_add_epi64(_mm256_cvtepi32_epi64(_mm256_cvtpd_epi32(n)), _mm256_set1_epi64x(1023)), 52);
    const D result = _mm256_mul_pd(p, _mm256_castsi256_pd(power));
    return _mm256_and_pd(result, _mm256_cmp_pd(x, lowest, _CMP_GT_OQ));
}

inline I firstTwoWords(std::size_t left)
{
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(static_cast<long long>(left)), _mm256_setr_epi64x(0, 1, 2, 3));
}

double preciseSum(const float *x, std::size_t n, double peak, double factor)
{
    const D top = _mm256_set1_pd(peak);
    const D scale = _mm256_set1_pd(factor);
    D sums[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()};
    std::size_t i = 0;
    for (; i + 2 * doubles <= n; i += 2 * doubles) {
#pragma GCC unroll 2
        for (std::size_t k = 0; k < 2; ++k) {
            const D difference = _mm256_sub_pd(_mm256_cvtps_pd(_mm_loadu_ps(x + i + k * doubles)), top);
            sums[k] = _mm256_add_pd(sums[k], precise(_mm256_mul_pd(difference, scale)));
        }
    }
    double rest[2 * doubles] = {}; // its last numbers count nothing
    const std::size_t left = n - i;
    for (std::size_t k = 0; k < left; ++k)
        rest[k] = static_cast<double>(x[i + k]);
    for (std::size_t k = 0; k < left; k += doubles) {
        const D difference = _mm256_sub_pd(_mm256_loadu_pd(rest + k), top);
        const D values = precise(_mm256_mul_pd(difference, scale));
        sums[0] = _mm256_add_pd(sums[0], _mm256_and_pd(values, _mm256_castsi256_pd(firstTwoWords(left - k))));
    }
    return sumOf(_mm256_add_pd(sums[0], sums[1]));
}

double exponentials(const double *x, std::size_t n, double peak, double factor, double *out)
{
    const D top = _mm256_set1_pd(peak);
    const D scale = _mm256_set1_pd(factor);
    D sum = _mm256_setzero_pd();
    for (std::size_t i = 0; i < n; i += doubles) {
        const I mask = firstTwoWords(n - i);
        const D difference = _mm256_sub_pd(_mm256_maskload_pd(x + i, mask), top);
        const D values = precise(_mm256_mul_pd(difference, scale));
        _mm256_maskstore_pd(out + i, mask, values);
        sum = _mm256_add_pd(sum, _mm256_and_pd(values, _mm256_castsi256_pd(mask)));
    }
    return sumOf(sum);
}

void places(const double *x, std::size_t n, double peak, double scale, int last, int *places)
{
    const D most = _mm256_set1_pd(last);
    std::size_t i = 0;
    for (; i + doubles <= n; i += doubles) {
        const D difference = _mm256_sub_pd(_mm256_set1_pd(peak), _mm256_loadu_pd(x + i));
        const D place = _mm256_min_pd(_mm256_mul_pd(difference, _mm256_set1_pd(scale)), most);
        _mm_storeu_si128(reinterpret_cast<__m128i *>(places + i), _mm256_cvttpd_epi32(place));
    }
    for (; i < n; ++i) {
        const double place = (peak - x[i]) * scale;
        places[i] = place < last ? static_cast<int>(place) : last;
    }
}

std::size_t positions(const int *places, std::size_t n, int place, int *found)
{
    std::size_t count = 0;
    std::size_t i = 0;
    for (; i + floats <= n; i += floats) {
        const I next = _mm256_loadu_si256(reinterpret_cast<const I *>(places + i));
        const I equal = _mm256_cmpeq_epi32(next, _mm256_set1_epi32(place));
        for (auto bits = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(equal))); bits != 0;
             bits &= bits - 1)
            found[count++] = static_cast<int>(i) + __builtin_ctz(bits);
    }
    for (; i < n; ++i) {
        if (places[i] == place)
            found[count++] = static_cast<int>(i);
    }
    return count;
}

std::size_t gather(const float *x, std::size_t n, float limit, int first, int *found, double *values)
{
    const F least = _mm256_set1_ps(limit);
    std::size_t count = 0;
    for (std::size_t i = 0; i < n; i += floats) {
        const I mask = firstOnes(static_cast<std::int64_t>(n - i));
        const F wanted =
            _mm256_and_ps(_mm256_cmp_ps(_mm256_maskload_ps(x + i, mask), least, _CMP_GE_OQ), _mm256_castsi256_ps(mask));
        for (auto bits = static_cast<unsigned>(_mm256_movemask_ps(wanted)); bits != 0; bits &= bits - 1) {
            const std::size_t at = i + static_cast<std::size_t>(__builtin_ctz(bits));
            found[count] = first + static_cast<int>(at);
            values[count++] = static_cast<double>(x[at]);
        }
    }
    return count;
}

} // namespace

void setLogitScansAvx2(LogitScans &scans)
{
    scans = {peaks, roughSum, preciseSum, exponentials, places, positions, gather};
}

} // namespace kernels
