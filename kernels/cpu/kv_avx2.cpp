// SPDX-License-Identifier: GPL-3.0-or-later
// Stored keys and values on AVX2.
#include "kernels/cpu/kv_vector.h"
#include "kernels/cpu/tiles_avx2.h"
#include "kernels/cpu/vector_avx2.h"

namespace kernels {

namespace {

void storeHalf(const float *x, int n, std::uint16_t *target)
{
    int i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128(reinterpret_cast<__m128i *>(target + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; ++i)
        target[i] = _cvtss_sh(x[i], _MM_FROUND_TO_NEAREST_INT);
}

/// Up to eight numbers, zeros behind them.
F eightOf(const float *x, int left)
{
    if (left >= 8)
        return _mm256_loadu_ps(x);
    const I mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(left), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    return _mm256_maskload_ps(x, mask);
}

/// Low bytes of eight 32-bit numbers.
__m128i lowBytes(I numbers)
{
    const I gathered = _mm256_shuffle_epi8(numbers, _mm256_set1_epi32(0x0c080400));
    const __m128i low = _mm256_castsi256_si128(gathered);
    return _mm_unpacklo_epi32(low, _mm256_extracti128_si256(gathered, 1));
}

void storeQuantBlock(const float *x, int count, char *target)
{
    constexpr int notNumber = 0x7e00;
    F v[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
        v[i] = count > i * 8 ? eightOf(x + i * 8, count - i * 8) : _mm256_setzero_ps();
    const int bits = largestBits(v);
    const float largest = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(bits)));
    std::uint16_t scaleBits =
        bits < 0x7f800000 ? _cvtss_sh(largest / 127.0F, _MM_FROUND_TO_NEAREST_INT) : std::uint16_t{notNumber};
    if (scaleBits == 0x7c00) // no half holds the scale
        scaleBits = notNumber;
    const bool zero = scaleBits == 0 || scaleBits == notNumber;
    const F inverse = _mm256_set1_ps(zero ? 0.0F : 1.0F / _cvtsh_ss(scaleBits));
    *reinterpret_cast<std::uint16_t *>(target) = scaleBits;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        I n = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse));
        n = _mm256_max_epi32(_mm256_min_epi32(n, _mm256_set1_epi32(127)), _mm256_set1_epi32(-127));
        n = zero ? _mm256_setzero_si256() : n;
        _mm_storel_epi64(reinterpret_cast<__m128i *>(target + 2 + i * 8), lowBytes(n));
    }
}

/// Source of the steps: storeKvRow().
I toE4m3(F x)
{
    const I all = _mm256_castps_si256(x);
    const I size = _mm256_and_si256(all, _mm256_set1_epi32(0x7fffffff));
    const I sign = _mm256_and_si256(_mm256_srli_epi32(all, 24), _mm256_set1_epi32(0x80));
    const I rest = _mm256_min_epi32(size, _mm256_set1_epi32(0x43e00000)); // 448
    const F added = _mm256_add_ps(_mm256_castsi256_ps(rest), _mm256_set1_ps(16384.0F));
    const I small = _mm256_and_si256(_mm256_castps_si256(added), _mm256_set1_epi32(0xff));
    const I even = _mm256_and_si256(_mm256_srli_epi32(rest, 20), _mm256_set1_epi32(1));
    const I rounded = _mm256_add_epi32(_mm256_add_epi32(rest, _mm256_set1_epi32(0x7ffff)), even);
    const I normal = _mm256_srli_epi32(_mm256_sub_epi32(rounded, _mm256_set1_epi32(120 << 23)), 20);
    const I isSmall = _mm256_cmpgt_epi32(_mm256_set1_epi32(0x3c800000), rest); // 2^-6
    const I number = _mm256_blendv_epi8(normal, small, isSmall);
    const I notFinite = _mm256_cmpgt_epi32(size, _mm256_set1_epi32(0x7f7fffff));
    return _mm256_or_si256(_mm256_blendv_epi8(number, _mm256_set1_epi32(0x7f), notFinite), sign);
}

void storeE4m3(const float *x, int n, char *target)
{
    for (int i = 0; i < n; i += 8) {
        const __m128i bytes = lowBytes(toE4m3(eightOf(x + i, n - i)));
        if (n - i >= 8) {
            _mm_storel_epi64(reinterpret_cast<__m128i *>(target + i), bytes);
            continue;
        }
        alignas(16) char padded[16];
        _mm_store_si128(reinterpret_cast<__m128i *>(padded), bytes);
        for (int j = 0; i + j < n; ++j)
            target[i + j] = padded[j];
    }
}

void storeBrain(const float *x, int n, std::uint16_t *target)
{
    const auto *bits = reinterpret_cast<const std::uint32_t *>(x);
    for (int i = 0; i < n; ++i) {
        const bool isNumber = (bits[i] & 0x7fffffffU) <= 0x7f800000U;
        const std::uint32_t rounded = bits[i] + 0x7fffU + ((bits[i] >> 16) & 1U);
        target[i] = static_cast<std::uint16_t>(isNumber ? rounded >> 16 : (bits[i] >> 16) | 0x40U);
    }
}

void storeKv(KvValues values, const float *x, int n, void *target)
{
    switch (values) {
    case KvValues::Half:
        return storeHalf(x, n, static_cast<std::uint16_t *>(target));
    case KvValues::Brain:
        return storeBrain(x, n, static_cast<std::uint16_t *>(target));
    case KvValues::E4m3:
        return storeE4m3(x, n, static_cast<char *>(target));
    case KvValues::Quant8:
        for (int i = 0; i < n; i += 32)
            storeQuantBlock(x + i, n - i < 32 ? n - i : 32, static_cast<char *>(target) + i / 32 * quantBlockBytes);
        return;
    case KvValues::Float:
        break;
    }
    for (int i = 0; i < n; ++i)
        static_cast<float *>(target)[i] = x[i];
}

/// Turns 8 rows of 8 into 8 columns.
inline __attribute__((always_inline)) void transpose(F (&r)[8])
{
    F t[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    F u[8];
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
        u[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
        u[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
        u[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
        u[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        r[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
    }
}

/// The scales of block `block` of 8 rows.
F scalesOf(const char *group, std::int64_t rowBytes, int block)
{
    alignas(16) std::uint16_t halves[8];
    for (int position = 0; position < 8; ++position)
        halves[position] =
            *reinterpret_cast<const std::uint16_t *>(group + position * rowBytes + block * quantBlockBytes);
    return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i *>(halves)));
}

/// Elements [i, i + 8) of the keys of 8 positions, positions along the lanes. With Quant8 `scales` is kept from one
/// call to the next within a block: the scales are multiplied to columns, not to every row.
template<KvValues V>
inline __attribute__((always_inline)) void keyColumns(const char *group, std::int64_t rowBytes, int i, int left,
                                                      F &scales, F (&columns)[8])
{
    if (V == KvValues::Quant8 && i % 32 == 0)
        scales = scalesOf(group, rowBytes, i / 32);
    if (V == KvValues::Quant8) {
#pragma GCC unroll 8
        for (int position = 0; position < 8; ++position)
            columns[position] = quantNumbers(group + position * rowBytes, i);
    } else if (left >= 8) {
#pragma GCC unroll 8
        for (int position = 0; position < 8; ++position)
            columns[position] = storedEight<V>(group + position * rowBytes, i);
    } else {
        for (int position = 0; position < 8; ++position)
            columns[position] = storedEightOrZero<V>(group + position * rowBytes, i, left);
    }
    transpose(columns);
#pragma GCC unroll 8
    for (int j = 0; j < 8 && V == KvValues::Quant8; ++j)
        columns[j] = _mm256_mul_ps(scales, columns[j]);
}

template<KvValues V> void loadKeysOf(const KvTile &tile, int groups, int n, float *target)
{
    for (int g = 0; g < groups; ++g) {
        const auto *group = static_cast<const char *>(tile.groups[g]);
        F scales = _mm256_setzero_ps();
        for (int i = 0; i < n; i += 8) {
            F columns[8];
            keyColumns<V>(group, tile.rowBytes, i, n - i, scales, columns);
#pragma GCC unroll 8
            for (int j = 0; j < 8; ++j)
                _mm256_storeu_ps(target + (i + j) * kvTileKeys + g * kvGroupKeys, columns[j]);
        }
    }
}

template<KvValues V> void loadValuesOf(const KvTile &tile, int count, int n, float *target, std::int64_t stride)
{
    for (int position = 0; position < count; ++position) {
        const auto *group = static_cast<const char *>(tile.groups[position / kvGroupKeys]);
        const char *row = group + position % kvGroupKeys * tile.rowBytes;
        for (int i = 0; i < stride; i += 8)
            _mm256_storeu_ps(target + position * stride + i,
                             i < n ? storedEightOrZero<V>(row, i, n - i) : _mm256_setzero_ps());
    }
}

/// Calls `function` with the stored type as a constant.
template<typename Function> void withType(KvValues values, Function function)
{
    switch (values) {
    case KvValues::Half:
        return function.template operator()<KvValues::Half>();
    case KvValues::Brain:
        return function.template operator()<KvValues::Brain>();
    case KvValues::Quant8:
        return function.template operator()<KvValues::Quant8>();
    case KvValues::E4m3:
        return function.template operator()<KvValues::E4m3>();
    case KvValues::Float:
        return function.template operator()<KvValues::Float>();
    }
}

void loadKeys(const KvTile &tile, int groups, int n, float *target)
{
    withType(tile.values, [&]<KvValues V>() { loadKeysOf<V>(tile, groups, n, target); });
}

void loadValues(const KvTile &tile, int count, int n, float *target, std::int64_t stride)
{
    withType(tile.values, [&]<KvValues V>() { loadValuesOf<V>(tile, count, n, target, stride); });
}

} // namespace

void addKvKernelsAvx2(LevelKernels &kernels)
{
    kernels.storeKv = storeKv;
    kernels.loadKeys = loadKeys;
    kernels.loadValues = loadValues;
}

} // namespace kernels
