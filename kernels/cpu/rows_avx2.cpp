// SPDX-License-Identifier: GPL-3.0-or-later
// Row-wise operations on AVX2.
#include "kernels/cpu/level.h"
#include "kernels/cpu/tiles_avx2.h"
#include "kernels/cpu/vector_avx2.h"

namespace kernels {

namespace {

// Below this 127 / largest is not a finite float any more; such a block counts as zero.
constexpr float smallestBlock = 1e-36F;

float horizontalSum(F v)
{
    __m128 h = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    h = _mm_add_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}

/// Sums of elements 0..15 and 16..31.
struct HalfSums {
    int first;
    int second;
};

int sumOf(I v)
{
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

void storeRecord(float scale, HalfSums sums, BlockRecord &record, HalfRecord *halves)
{
    const int sum = sums.first + sums.second;
    record.scale = scale;
    record.scaledSum = scale * static_cast<float>(sum);
    record.minus128 = -128 * sum;
    record.minus8 = -8 * sum;
    if (halves != nullptr) {
        halves[0].scaledSum = scale * static_cast<float>(sums.first);
        halves[0].minus128 = -128 * sums.first;
        halves[1].scaledSum = scale * static_cast<float>(sums.second);
        halves[1].minus128 = -128 * sums.second;
    }
}

/// Rounds v x inverse to int8.
HalfSums roundBlock(const F (&v)[4], float inverse, std::int8_t *numbers)
{
    I n[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
        n[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], _mm256_set1_ps(inverse)));
    const I packed = _mm256_packs_epi16(_mm256_packs_epi32(n[0], n[1]), _mm256_packs_epi32(n[2], n[3]));
    const I order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256(reinterpret_cast<I *>(numbers), _mm256_permutevar8x32_epi32(packed, order));
    return {sumOf(_mm256_add_epi32(n[0], n[1])), sumOf(_mm256_add_epi32(n[2], n[3]))};
}

inline __attribute__((always_inline)) void loadBlock(const float *x, F (&v)[4])
{
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
        v[i] = _mm256_loadu_ps(x + i * 8);
}

void quantizeBlock(const F (&v)[4], std::int8_t *numbers, BlockRecord &record, HalfRecord *halves)
{
    const int bits = largestBits(v);
    const float largest = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(bits)));
    const bool finite = bits < 0x7f800000;
    if (!finite || largest < smallestBlock) {
        _mm256_storeu_si256(reinterpret_cast<I *>(numbers), _mm256_setzero_si256());
        storeRecord(finite ? 0.0F : __builtin_nanf(""), {0, 0}, record, halves);
        return;
    }
    const HalfSums sums = roundBlock(v, 127.0F / largest, numbers);
    storeRecord(largest / 127.0F, sums, record, halves);
}

void quantizeRow(const float *x, int columns, std::int8_t *numbers, BlockRecord *blocks, HalfRecord *halves)
{
    for (int b = 0; b < columns / blockWidth; ++b) {
        F v[4];
        loadBlock(x + b * blockWidth, v);
        quantizeBlock(v, numbers + b * blockWidth, blocks[b], halves != nullptr ? halves + 2 * b : nullptr);
    }
}

int roundRest(const float *x, std::int8_t *numbers, BlockRecord &record, HalfRecord *halves)
{
    F v[4];
    loadBlock(x, v);
    const I largest = _mm256_set1_epi32(largestBits(v));
    const I sizes = _mm256_set1_epi32(0x7fffffff);
    unsigned equal = 0;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        const I same = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_castps_si256(v[i]), sizes), largest);
        equal |= static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(same))) << (8 * i);
    }
    const int place = __builtin_ctz(equal);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        const I lanes =
            _mm256_setr_epi32(8 * i, 8 * i + 1, 8 * i + 2, 8 * i + 3, 8 * i + 4, 8 * i + 5, 8 * i + 6, 8 * i + 7);
        v[i] = _mm256_andnot_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(lanes, _mm256_set1_epi32(place))), v[i]);
    }
    quantizeBlock(v, numbers, record, halves);
    return place;
}

void finishRows(const float *tile, int rows, const float *bias, int count, bool accumulate, float *target,
                std::int64_t stride)
{
    const I masks[2] = {firstOnes(count), firstOnes(count - 8)};
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 2
        for (int h = 0; h < 2; ++h) {
            float *row = target + r * stride + h * 8;
            F value = _mm256_loadu_ps(tile + r * panelRows + h * 8);
            if (bias != nullptr)
                value = _mm256_add_ps(value, _mm256_maskload_ps(bias + h * 8, masks[h]));
            if (count == panelRows) {
                _mm256_storeu_ps(row, accumulate ? _mm256_add_ps(value, _mm256_loadu_ps(row)) : value);
                continue;
            }
            if (accumulate)
                value = _mm256_add_ps(value, _mm256_maskload_ps(row, masks[h]));
            _mm256_maskstore_ps(row, masks[h], value);
        }
    }
}

void rotatePairs(float *head, const float *cosines, const float *sines, int pairs)
{
    const I twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    int i = 0;
    for (; i + 4 <= pairs; i += 4) {
        const F x = _mm256_loadu_ps(head + 2 * i);
        const F c = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(cosines + i)), twice);
        const F s = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(sines + i)), twice);
        const F crossed = _mm256_mul_ps(_mm256_permute_ps(x, 0xb1), s);
        _mm256_storeu_ps(head + 2 * i, _mm256_addsub_ps(_mm256_mul_ps(x, c), crossed));
    }
    for (; i < pairs; ++i) {
        const float a = head[2 * i];
        const float b = head[2 * i + 1];
        head[2 * i] = a * cosines[i] - b * sines[i];
        head[2 * i + 1] = a * sines[i] + b * cosines[i];
    }
}

void addRow(const float *x, float *inout, std::int64_t n)
{
    std::int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(inout + i, _mm256_add_ps(_mm256_loadu_ps(inout + i), _mm256_loadu_ps(x + i)));
    for (; i < n; ++i)
        inout[i] += x[i];
}

double sumOfSquares(const float *x, std::int64_t n)
{
    __m256d sums[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()};
    std::int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const F v = _mm256_loadu_ps(x + i);
        const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
        const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
        sums[0] = _mm256_fmadd_pd(low, low, sums[0]);
        sums[1] = _mm256_fmadd_pd(high, high, sums[1]);
    }
    const __m256d sum = _mm256_add_pd(sums[0], sums[1]);
    const __m128d pair = _mm_add_pd(_mm256_castpd256_pd128(sum), _mm256_extractf128_pd(sum, 1));
    double total = _mm_cvtsd_f64(pair) + _mm_cvtsd_f64(_mm_unpackhi_pd(pair, pair));
    for (; i < n; ++i)
        total += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    return total;
}

void rmsNormRow(const float *x, const float *weight, float epsilon, float *out, std::int64_t n)
{
    const double mean = sumOfSquares(x, n) / static_cast<double>(n);
    const auto factor = static_cast<float>(1.0 / __builtin_sqrt(mean + static_cast<double>(epsilon)));
    const F factors = _mm256_set1_ps(factor);
    if (weight == nullptr) {
        for (std::int64_t i = 0; i < n; ++i)
            out[i] = x[i] * factor;
        return;
    }
    std::int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i,
                         _mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(x + i), factors), _mm256_loadu_ps(weight + i)));
    for (; i < n; ++i)
        out[i] = x[i] * factor * weight[i];
}

float largest(const float *scores, int n)
{
    F m = _mm256_loadu_ps(scores);
    for (int i = 8; i < n; i += 8)
        m = _mm256_max_ps(m, _mm256_loadu_ps(scores + i));
    __m128 h = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
    h = _mm_max_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_max_ss(h, _mm_movehdup_ps(h)));
}

float exponentials(float *scores, float shift, int n)
{
    const F shifts = _mm256_set1_ps(shift);
    F sum = _mm256_setzero_ps();
    for (int i = 0; i < n; i += 8) {
        const F e = exponential(_mm256_sub_ps(_mm256_loadu_ps(scores + i), shifts));
        _mm256_storeu_ps(scores + i, e);
        sum = _mm256_add_ps(sum, e);
    }
    return horizontalSum(sum);
}

// tanh(x) = 1 - 2 / (exp(2x) + 1)
void softCap(float *scores, float cap, int n)
{
    const F one = _mm256_set1_ps(1.0F);
    const F two = _mm256_set1_ps(2.0F);
    for (int i = 0; i < n; i += 8) {
        const I mask = firstOnes(n - i);
        const F x = n - i >= 8 ? _mm256_loadu_ps(scores + i) : _mm256_maskload_ps(scores + i, mask);
        const F e = exponential(_mm256_mul_ps(two, _mm256_div_ps(x, _mm256_set1_ps(cap))));
        const F tangent = _mm256_sub_ps(one, _mm256_div_ps(two, _mm256_add_ps(e, one)));
        const F result = _mm256_mul_ps(_mm256_set1_ps(cap), tangent);
        if (n - i >= 8)
            _mm256_storeu_ps(scores + i, result);
        else
            _mm256_maskstore_ps(scores + i, mask, result);
    }
}

void scaleRow(float *row, float factor, std::int64_t n)
{
    std::int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(row + i, _mm256_mul_ps(_mm256_loadu_ps(row + i), _mm256_set1_ps(factor)));
    for (; i < n; ++i)
        row[i] *= factor;
}

void blendRow(float *row, float a, const float *other, float b, std::int64_t n)
{
    std::int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const F scaled = _mm256_mul_ps(_mm256_loadu_ps(row + i), _mm256_set1_ps(a));
        _mm256_storeu_ps(row + i, _mm256_fmadd_ps(_mm256_loadu_ps(other + i), _mm256_set1_ps(b), scaled));
    }
    for (; i < n; ++i)
        row[i] = row[i] * a + other[i] * b;
}

} // namespace

void addRowKernelsAvx2(LevelKernels &kernels)
{
    kernels.quantizeRow = quantizeRow;
    kernels.roundRest = roundRest;
    kernels.finishRows = finishRows;
    kernels.rotatePairs = rotatePairs;
    kernels.addRow = addRow;
    kernels.rmsNormRow = rmsNormRow;
    kernels.largest = largest;
    kernels.exponentials = exponentials;
    kernels.softCap = softCap;
    kernels.scaleRow = scaleRow;
    kernels.blendRow = blendRow;
}

} // namespace kernels
