// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/level.h"

#include <immintrin.h>

namespace kernels {

namespace {

constexpr int fetchBytes = 8192;

using I = __m256i;

I load(const std::uint8_t *p)
{
    return _mm256_loadu_si256(reinterpret_cast<const I *>(p));
}

__m256 halves(const std::uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)));
}

__m256 signedBytes(const std::uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(p))));
}

__m256 unsignedBytes(const std::uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(p))));
}

/// Half of 2^(exponent - 127), to go with doubled numbers; exponents 0 and 1 give subnormal numbers.
__m256 exponents(const std::uint8_t *p)
{
    const I e = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(p)));
    const I normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    const I tiny = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, tiny, _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e)));
}

/// Scales and minimums as the file's plain halves.
void unpackHalfScales(const PanelLayout &layout, const std::uint8_t *block, int count, float *scales, float *mins)
{
    for (int b = 0; b < count; ++b, block += layout.blockBytes) {
#pragma GCC unroll 2
        for (int i = 0; i < panelRows; i += 8) {
            _mm256_store_ps(scales + b * panelRows + i, halves(block + layout.scaleAt + i * 2));
            if (layout.hasMin)
                _mm256_store_ps(mins + b * panelRows + i, halves(block + layout.minAt + i * 2));
        }
    }
}

/// Scales as they are; minimums are what taking the zero off every number comes to.
void unpackSingleScales(const PanelLayout &layout, const std::uint8_t *block, int count, float *scales, float *mins)
{
    const __m256 minus = _mm256_set1_ps(-0.0F);
    for (int b = 0; b < count; ++b, block += layout.blockBytes) {
#pragma GCC unroll 2
        for (int i = 0; i < panelRows; i += 8) {
            const __m256 scale = _mm256_loadu_ps(reinterpret_cast<const float *>(block + layout.scaleAt) + i);
            _mm256_store_ps(scales + b * panelRows + i, scale);
            if (layout.hasMin)
                _mm256_store_ps(mins + b * panelRows + i,
                                _mm256_xor_ps(_mm256_mul_ps(scale, unsignedBytes(block + layout.minAt + i)), minus));
        }
    }
}

void unpackExponents(const PanelLayout &layout, const std::uint8_t *block, int count, float *scales)
{
    for (int b = 0; b < count; ++b, block += layout.blockBytes) {
        _mm256_store_ps(scales + b * panelRows, exponents(block + layout.scaleAt));
        _mm256_store_ps(scales + b * panelRows + 8, exponents(block + layout.scaleAt + 8));
    }
}

/// Products of a half for 256 k and an 8-bit factor for each group.
void unpackSuperScales(const PanelLayout &layout, const std::uint8_t *panel, int first, int count, float *scales,
                       float *mins)
{
    const __m256 minus = _mm256_set1_ps(-0.0F);
    const int numbers = blockWidth / layout.groupWidth * panelRows; // of a block
    const std::uint8_t *block = panel + layout.linesAt + static_cast<std::int64_t>(first) * layout.blockBytes;
    for (int b = 0; b < count; ++b, block += layout.blockBytes) {
        for (int i = 0; i < numbers; i += 8) {
            const std::int64_t super = (first + b) / 8 * panelRows + i % panelRows;
            const __m256 scale = halves(panel + layout.superScaleAt + super * 2);
            _mm256_store_ps(scales + b * numbers + i, _mm256_mul_ps(scale, signedBytes(block + layout.scaleAt + i)));
            if (layout.hasMin) {
                const __m256 min = _mm256_mul_ps(halves(panel + layout.superMinAt + super * 2),
                                                 unsignedBytes(block + layout.minAt + i));
                _mm256_store_ps(mins + b * numbers + i, _mm256_xor_ps(min, minus));
            }
        }
    }
}

I tableOf(PanelValues values)
{
    const __m128i iq4 = _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
    const __m128i e2m1 = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    return _mm256_broadcastsi128_si256(values == PanelValues::Iq4Table ? iq4 : e2m1);
}

/// Bit `line` of every byte, moved to bit `target`: a shift within the byte, whichever way, and a mask.
inline __attribute__((always_inline)) I bitOf(I plane, int line, int target)
{
    const I moved = target >= line ? _mm256_slli_epi16(plane, target - line) : _mm256_srli_epi16(plane, line - target);
    return _mm256_and_si256(moved, _mm256_set1_epi8(static_cast<char>(1 << target)));
}

/// Half a block (8 of 16 rows) of numbers made of a nibble, if any, and `Bits` single bits above it, or that a
/// nibble stands for in a table.
template<bool Nibbles, int Bits, bool Table> void unpackHalf(const std::uint8_t *block, I table, std::uint8_t *lines)
{
    constexpr int low = Nibbles ? 4 : 0;
    I planes[Bits > 0 ? Bits : 1];
#pragma GCC unroll 4
    for (int p = 0; p < Bits; ++p)
        planes[p] = load(block + (low + p) * lineBytes);
#pragma GCC unroll 8
    for (int line = 0; line < 8; ++line) {
        I value = _mm256_setzero_si256();
        if constexpr (Nibbles) {
            const I pair = load(block + line % 4 * lineBytes);
            value = _mm256_and_si256(line < 4 ? pair : _mm256_srli_epi16(pair, 4), _mm256_set1_epi8(15));
        }
#pragma GCC unroll 4
        for (int p = 0; p < Bits; ++p)
            value = _mm256_or_si256(value, bitOf(planes[p], line, low + p));
        if constexpr (Table)
            value = _mm256_shuffle_epi8(table, value);
        _mm256_store_si256(reinterpret_cast<I *>(lines + line * lineBytes), value);
    }
}

using UnpackHalf = void (*)(const std::uint8_t *, I, std::uint8_t *);

UnpackHalf unpackerOf(const PanelLayout &layout)
{
    if (layout.nibbleLines == 0)
        return layout.bitLines == 2 ? unpackHalf<false, 2, false> : unpackHalf<false, 3, false>;
    if (layout.bitLines == 2)
        return unpackHalf<true, 2, false>;
    if (layout.bitLines == 1)
        return unpackHalf<true, 1, false>;
    return layout.values == PanelValues::Small ? unpackHalf<true, 0, false> : unpackHalf<true, 0, true>;
}

void unpackLines(const PanelLayout &layout, const std::uint8_t *block, int count, std::uint8_t *lines)
{
    const UnpackHalf unpack = unpackerOf(layout);
    const I table = tableOf(layout.values);
    for (int b = 0; b < count; ++b, block += layout.blockBytes) {
        for (int i = 0; i < layout.blockBytes; i += lineBytes)
            _mm_prefetch(reinterpret_cast<const char *>(block) + fetchBytes + i, _MM_HINT_T1);
        unpack(block, table, lines + b * 512);
        unpack(block + 32, table, lines + b * 512 + 32);
    }
}

} // namespace

void unpackPanelAvx2(const PanelLayout &layout, const std::uint8_t *panel, int first, int count, std::uint8_t *lines,
                     float *scales, float *mins)
{
    if (layout.scales == PanelScales::Raw) {
        unpackRawPanel(layout, panel, first, count, lines, scales);
        return;
    }
    const std::uint8_t *block = panel + layout.linesAt + static_cast<std::int64_t>(first) * layout.blockBytes;
    if (lines != nullptr) // first: scales are a line here and there, which no stream would fetch
        unpackLines(layout, block, count, lines);
    if (layout.scales == PanelScales::Half)
        unpackHalfScales(layout, block, count, scales, mins);
    else if (layout.scales == PanelScales::Single)
        unpackSingleScales(layout, block, count, scales, mins);
    else if (layout.scales == PanelScales::Exponent)
        unpackExponents(layout, block, count, scales);
    else
        unpackSuperScales(layout, panel, first, count, scales, mins);
}

} // namespace kernels
