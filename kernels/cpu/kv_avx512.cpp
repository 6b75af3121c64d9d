// SPDX-License-Identifier: GPL-3.0-or-later
// What AVX-512 improves in attention over stored keys and values: 16 positions, or 16 columns, in one register. The
// operations on a sum are those of outerProducts on keys and values that were loaded first.
#include "kernels/cpu/level.h"

#include <immintrin.h>

namespace kernels {

namespace {

using Z = __m512;
using I = __m256i;

constexpr int quantBlockBytes = 34; // fp16 scale and 32 numbers

/// Sixteen bytes of E4M3 in words; moved up by 7 with its sign apart each is the fp16 of the number / 256.
inline __attribute__((always_inline)) Z fromE4m3(I words)
{
    const I size = _mm256_and_si256(words, _mm256_set1_epi16(0x7f));
    const I sign = _mm256_slli_epi16(_mm256_and_si256(words, _mm256_set1_epi16(0x80)), 8);
    const I notNumber = _mm256_and_si256(_mm256_cmpeq_epi16(size, _mm256_set1_epi16(0x7f)), _mm256_set1_epi16(0x7e00));
    const I half = _mm256_or_si256(_mm256_or_si256(_mm256_slli_epi16(size, 7), sign), notNumber);
    return _mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(256.0F));
}

/// Sixteen words of a stored type as floats.
template<KvValues V> inline __attribute__((always_inline)) Z widened(I words, Z scales)
{
    if constexpr (V == KvValues::Half)
        return _mm512_cvtph_ps(words);
    if constexpr (V == KvValues::Brain)
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16));
    if constexpr (V == KvValues::E4m3)
        return fromE4m3(words);
    return _mm512_mul_ps(scales, _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(words)));
}

/// Elements [i, i + 8) of two rows as words, the first row in the lower half.
template<KvValues V> inline __attribute__((always_inline)) I rowPair(const char *a, const char *b, int i)
{
    if constexpr (V == KvValues::Half || V == KvValues::Brain) {
        const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i *>(a + i * 2));
        const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i *>(b + i * 2));
        return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    }
    const int at = V == KvValues::Quant8 ? i / 32 * quantBlockBytes + 2 + i % 32 : i;
    const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(a + at));
    const __m128i high = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(b + at));
    const __m128i bytes = _mm_unpacklo_epi64(low, high);
    return V == KvValues::Quant8 ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
}

/// In each half: 8 rows of 8 words become 8 columns.
inline __attribute__((always_inline)) void transpose(I (&r)[8])
{
    I t[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        t[2 * i] = _mm256_unpacklo_epi16(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_epi16(r[2 * i], r[2 * i + 1]);
    }
    I u[8]; // two columns each, of rows 0..3 and 4..7
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
        u[4 * i] = _mm256_unpacklo_epi32(t[4 * i], t[4 * i + 2]);
        u[4 * i + 1] = _mm256_unpackhi_epi32(t[4 * i], t[4 * i + 2]);
        u[4 * i + 2] = _mm256_unpacklo_epi32(t[4 * i + 1], t[4 * i + 3]);
        u[4 * i + 3] = _mm256_unpackhi_epi32(t[4 * i + 1], t[4 * i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        r[2 * i] = _mm256_unpacklo_epi64(u[i], u[i + 4]);
        r[2 * i + 1] = _mm256_unpackhi_epi64(u[i], u[i + 4]);
    }
}

/// The scales of block `block` of 16 rows.
inline Z scalesOf(const char *a, const char *b, std::int64_t rowBytes, int block)
{
    alignas(32) std::uint16_t halves[16];
    for (int position = 0; position < kvGroupKeys; ++position) {
        halves[position] = *reinterpret_cast<const std::uint16_t *>(a + position * rowBytes + block * quantBlockBytes);
        halves[position + kvGroupKeys] =
            *reinterpret_cast<const std::uint16_t *>(b + position * rowBytes + block * quantBlockBytes);
    }
    return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const I *>(halves)));
}

/// Asks for bytes [begin, end) of what is needed soon: blocks lie where the hardware's own guesses do not find them.
/// Into the second cache, which has more misses under way than the first, and a few lines at a time between products,
/// or whoever asks waits for the places of misses.
inline __attribute__((always_inline)) void fetchAhead(const char *rows, std::int64_t begin, std::int64_t end)
{
    constexpr std::int64_t line = 64;
    for (std::int64_t at = begin; at < end; at += line)
        _mm_prefetch(rows + at, _MM_HINT_T1);
}

/// The rows of two groups; without a second one the first stands for it, and nobody reads its scores.
struct GroupPair {
    GroupPair(const KvTile &tile, int group, const GroupPair *instead)
        : first(static_cast<const char *>(tile.groups[group]))
        , second(static_cast<const char *>(tile.groups[group + 1]))
    {
        if (first == nullptr)
            first = instead->first;
        if (second == nullptr)
            second = first;
    }

    const char *first;
    const char *second;
};

/// Scores of the 16 positions of two groups. Meanwhile two other groups are fetched, `aheadBytes` each.
template<KvValues V, int R>
__attribute__((noinline)) void scorePair(const GroupPair &rows, const GroupPair &ahead, std::int64_t rowBytes,
                                         std::int64_t aheadBytes, int n, const float *queries, float *scores)
{
    const char *a = rows.first;
    const char *b = rows.second;
    Z sums[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
        sums[r] = _mm512_setzero_ps();
    Z scales = _mm512_setzero_ps();
    const std::int64_t step = aheadBytes * 8 / n; // of a group, for every 8 elements
    std::int64_t at = 0;
    for (int i = 0; i < n; i += 8, at += step) {
        fetchAhead(ahead.first, at, at + step);
        fetchAhead(ahead.second, at, at + step);
        if (V == KvValues::Quant8 && i % 32 == 0)
            scales = scalesOf(a, b, rowBytes, i / 32);
        I columns[8];
#pragma GCC unroll 8
        for (int position = 0; position < 8; ++position)
            columns[position] = rowPair<V>(a + position * rowBytes, b + position * rowBytes, i);
        transpose(columns);
#pragma GCC unroll 8
        for (int j = 0; j < 8; ++j) {
            const Z keys = widened<V>(columns[j], scales);
#pragma GCC unroll 4
            for (int r = 0; r < R; ++r)
                sums[r] = _mm512_fmadd_ps(keys, _mm512_set1_ps(queries[r * n + i + j]), sums[r]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
        _mm512_storeu_ps(scores + r * kvTileKeys, sums[r]);
}

template<KvValues V, int R>
void scoreKeysOf(const KvTile &tile, const KvTile &ahead, int groups, int n, const float *queries, float *scores)
{
    for (int g = 0; g < groups; g += 2) {
        const GroupPair rows(tile, g, nullptr);
        scorePair<V, R>(rows, GroupPair(ahead, g, &rows), tile.rowBytes, kvGroupKeys * ahead.rowBytes, n, queries,
                        scores + g * kvGroupKeys);
    }
    for (int g = (groups + 1) / 2 * 2; g < kvTileKeys / kvGroupKeys && ahead.groups[g] != nullptr; ++g)
        fetchAhead(static_cast<const char *>(ahead.groups[g]), 0, kvGroupKeys * ahead.rowBytes);
}

/// Elements [i, i + 16) of a stored row; i a multiple of 16.
template<KvValues V> inline __attribute__((always_inline)) Z storedSixteen(const char *row, int i)
{
    if constexpr (V == KvValues::Float)
        return _mm512_loadu_ps(reinterpret_cast<const float *>(row) + i);
    if constexpr (V == KvValues::Half || V == KvValues::Brain)
        return widened<V>(_mm256_loadu_si256(reinterpret_cast<const I *>(row + i * 2)), _mm512_setzero_ps());
    if constexpr (V == KvValues::E4m3)
        return fromE4m3(_mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(row + i))));
    const char *block = row + i / 32 * quantBlockBytes;
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(block + 2 + i % 32));
    const Z scale = _mm512_set1_ps(_cvtsh_ss(*reinterpret_cast<const std::uint16_t *>(block)));
    return _mm512_mul_ps(scale, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)));
}

/// Where positions from `begin` on begin in a group.
inline int firstInGroup(int group, int begin)
{
    return begin > group * kvGroupKeys ? begin - group * kvGroupKeys : 0;
}

/// Fetches rows [begin, end) of a group, if there is one.
inline void fetchRows(const KvTile &tile, int group, int begin, int end)
{
    if (const auto *rows = static_cast<const char *>(tile.groups[group]); rows != nullptr)
        fetchAhead(rows, begin * tile.rowBytes, end * tile.rowBytes);
}

/// C x 16 columns of the weighted sum. Row by row of the tile, as many of another are fetched.
template<KvValues V, int R, int C>
__attribute__((noinline)) void sumColumns(const KvTile &tile, const KvTile &ahead, int begin, int end, int column,
                                          const float *weights, float *out, std::int64_t stride)
{
    Z sums[R][C];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c)
            sums[r][c] = _mm512_loadu_ps(out + r * stride + c * 16);
    }
    for (int group = begin / kvGroupKeys; group * kvGroupKeys < end; ++group) {
        const int first = firstInGroup(group, begin);
        const int last = end - group * kvGroupKeys < kvGroupKeys ? end - group * kvGroupKeys : kvGroupKeys;
        const char *row = static_cast<const char *>(tile.groups[group]) + first * tile.rowBytes;
        const char *fetched = static_cast<const char *>(ahead.groups[group]) + first * ahead.rowBytes;
        const std::int64_t fetchedBytes = column == 0 && ahead.groups[group] != nullptr ? ahead.rowBytes : 0;
        const float *weight = weights + group * kvGroupKeys;
        for (int position = first; position < last; ++position, row += tile.rowBytes, fetched += fetchedBytes) {
            fetchAhead(fetched, 0, fetchedBytes);
#pragma GCC unroll 4
            for (int c = 0; c < C; ++c) {
                const Z values = storedSixteen<V>(row, column + c * 16);
#pragma GCC unroll 4
                for (int r = 0; r < R; ++r)
                    sums[r][c] = _mm512_fmadd_ps(values, _mm512_set1_ps(weight[r * kvTileKeys + position]), sums[r][c]);
            }
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c)
            _mm512_storeu_ps(out + r * stride + c * 16, sums[r][c]);
    }
}

template<KvValues V, int R>
void sumValuesOf(const KvTile &tile, const KvTile &ahead, int begin, int end, const float *weights, float *out,
                 std::int64_t stride)
{
    using Sum = void (*)(const KvTile &, const KvTile &, int, int, int, const float *, float *, std::int64_t);
    static constexpr Sum byColumns[] = {sumColumns<V, R, 1>, sumColumns<V, R, 2>, sumColumns<V, R, 3>,
                                        sumColumns<V, R, 4>};
    for (std::int64_t c = 0; c < stride; c += 64) {
        const std::int64_t left = stride - c < 64 ? stride - c : 64;
        byColumns[left / 16 - 1](tile, ahead, begin, end, static_cast<int>(c), weights, out + c, stride);
    }
    for (int group = end / kvGroupKeys; group < kvTileKeys / kvGroupKeys; ++group)
        fetchRows(ahead, group, firstInGroup(group, end), kvGroupKeys);
}

template<KvValues V>
void scoreKeysOfType(const KvTile &tile, const KvTile &ahead, int groups, int n, const float *queries, int rows,
                     float *scores)
{
    static_assert(directRows == 4);
    using Score = void (*)(const KvTile &, const KvTile &, int, int, const float *, float *);
    static constexpr Score byRows[] = {scoreKeysOf<V, 1>, scoreKeysOf<V, 2>, scoreKeysOf<V, 3>, scoreKeysOf<V, 4>};
    byRows[rows - 1](tile, ahead, groups, n, queries, scores);
}

template<KvValues V>
void sumValuesOfType(const KvTile &tile, const KvTile &ahead, int begin, int end, const float *weights, int rows,
                     float *out, std::int64_t stride)
{
    using Sum = void (*)(const KvTile &, const KvTile &, int, int, const float *, float *, std::int64_t);
    static constexpr Sum byRows[] = {sumValuesOf<V, 1>, sumValuesOf<V, 2>, sumValuesOf<V, 3>, sumValuesOf<V, 4>};
    byRows[rows - 1](tile, ahead, begin, end, weights, out, stride);
}

void scoreKeys(const KvTile &tile, const KvTile &ahead, int groups, int n, const float *queries, int rows,
               float *scores)
{
    switch (tile.values) {
    case KvValues::Brain:
        return scoreKeysOfType<KvValues::Brain>(tile, ahead, groups, n, queries, rows, scores);
    case KvValues::Quant8:
        return scoreKeysOfType<KvValues::Quant8>(tile, ahead, groups, n, queries, rows, scores);
    case KvValues::E4m3:
        return scoreKeysOfType<KvValues::E4m3>(tile, ahead, groups, n, queries, rows, scores);
    default:
        return scoreKeysOfType<KvValues::Half>(tile, ahead, groups, n, queries, rows, scores);
    }
}

void sumValues(const KvTile &tile, const KvTile &ahead, int begin, int end, const float *weights, int rows, float *out,
               std::int64_t stride)
{
    switch (tile.values) {
    case KvValues::Half:
        return sumValuesOfType<KvValues::Half>(tile, ahead, begin, end, weights, rows, out, stride);
    case KvValues::Brain:
        return sumValuesOfType<KvValues::Brain>(tile, ahead, begin, end, weights, rows, out, stride);
    case KvValues::Quant8:
        return sumValuesOfType<KvValues::Quant8>(tile, ahead, begin, end, weights, rows, out, stride);
    case KvValues::E4m3:
        return sumValuesOfType<KvValues::E4m3>(tile, ahead, begin, end, weights, rows, out, stride);
    case KvValues::Float:
        return sumValuesOfType<KvValues::Float>(tile, ahead, begin, end, weights, rows, out, stride);
    }
}

} // namespace

void addKvKernelsAvx512(LevelKernels &kernels)
{
    kernels.scoreKeys = scoreKeys;
    kernels.sumValues = sumValues;
}

} // namespace kernels
