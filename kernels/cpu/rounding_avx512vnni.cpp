// SPDX-License-Identifier: GPL-3.0-or-later
// Activations rounded to int8, a block in two registers. The numbers and records are those of the other levels.
#include "kernels/cpu/level.h"
#include "kernels/cpu/row_products.h"

#include <immintrin.h>

namespace kernels {

namespace {

using I = __m512i;
using Z = __m512;

// Below this 127 / largest is not a finite float any more; such a block counts as zero.
constexpr float smallestBlock = 1e-36F;

void storeRecord(float scale, int first, int second, BlockRecord &record, HalfRecord *halves)
{
    const int sum = first + second;
    record.scale = scale;
    record.scaledSum = scale * static_cast<float>(sum);
    record.minus128 = -128 * sum;
    record.minus8 = -8 * sum;
    if (halves != nullptr) {
        halves[0].scaledSum = scale * static_cast<float>(first);
        halves[0].minus128 = -128 * first;
        halves[1].scaledSum = scale * static_cast<float>(second);
        halves[1].minus128 = -128 * second;
    }
}

/// Rounds low and high, 16 elements each, times `inverse`, and stores the numbers and their record.
inline __attribute__((always_inline)) void roundBlock(Z low, Z high, float inverse, float scale, std::int8_t *numbers,
                                                      BlockRecord &record, HalfRecord *halves)
{
    const Z factor = _mm512_set1_ps(inverse);
    const __m128i first = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(low, factor)));
    const __m128i second = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(high, factor)));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(numbers), first);
    _mm_storeu_si128(reinterpret_cast<__m128i *>(numbers + 16), second);
    const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1);
    __m256i sums = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), both); // of 4 elements
    sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0x4e));
    sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0xb1));
    storeRecord(scale, _mm256_cvtsi256_si32(sums), _mm256_extract_epi32(sums, 4), record, halves);
}

/// The largest of 32 sizes, as bits, which keep their order; NaNs are above infinity.
inline __attribute__((always_inline)) int largestBits(Z low, Z high)
{
    const I sizes = _mm512_set1_epi32(0x7fffffff);
    const I most = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(low), sizes),
                                    _mm512_and_si512(_mm512_castps_si512(high), sizes));
    return _mm512_reduce_max_epi32(most);
}

inline __attribute__((always_inline)) void quantizeBlock(Z low, Z high, std::int8_t *numbers, BlockRecord &record,
                                                         HalfRecord *halves)
{
    const int bits = largestBits(low, high);
    const float largest = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(bits)));
    const bool finite = bits < 0x7f800000;
    if (!finite || largest < smallestBlock) {
        _mm256_storeu_si256(reinterpret_cast<__m256i *>(numbers), _mm256_setzero_si256());
        storeRecord(finite ? 0.0F : __builtin_nanf(""), 0, 0, record, halves);
        return;
    }
    roundBlock(low, high, 127.0F / largest, largest / 127.0F, numbers, record, halves);
}

void quantizeRow(const float *x, int columns, std::int8_t *numbers, BlockRecord *blocks, HalfRecord *halves)
{
    for (int b = 0; b < columns / blockWidth; ++b)
        quantizeBlock(_mm512_loadu_ps(x + b * blockWidth), _mm512_loadu_ps(x + b * blockWidth + 16),
                      numbers + b * blockWidth, blocks[b], halves != nullptr ? halves + 2 * b : nullptr);
}

/// Elements whose size has these bits.
inline __attribute__((always_inline)) unsigned placesOf(Z x, int bits)
{
    const I sizes = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
    return _mm512_cmpeq_epi32_mask(sizes, _mm512_set1_epi32(bits));
}

int roundRest(const float *x, std::int8_t *numbers, BlockRecord &record, HalfRecord *halves)
{
    const Z low = _mm512_loadu_ps(x);
    const Z high = _mm512_loadu_ps(x + 16);
    const int bits = largestBits(low, high);
    const unsigned places = placesOf(low, bits) | placesOf(high, bits) << 16;
    const unsigned others = ~(places & (0U - places));
    quantizeBlock(_mm512_maskz_mov_ps(static_cast<__mmask16>(others), low),
                  _mm512_maskz_mov_ps(static_cast<__mmask16>(others >> 16), high), numbers, record, halves);
    return __builtin_ctz(places);
}

} // namespace

void addRoundingAvx512Vnni(LevelKernels &kernels)
{
    kernels.quantizeRow = quantizeRow;
    kernels.roundRest = roundRest;
}

} // namespace kernels
