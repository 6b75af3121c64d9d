// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/level.h"

#include <immintrin.h>

namespace kernels {

namespace {

using I = __m256i;

I load(const std::uint8_t *p)
{
    return _mm256_load_si256(reinterpret_cast<const I *>(p));
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

/// Eight rows of one group's scale.
__m256 scaleOf(const PanelLayout &layout, const std::uint8_t *panel, std::int64_t group, int half)
{
    const std::int64_t at = group * panelRows + half * 8;
    if (layout.scales == PanelScales::Half)
        return halves(panel + layout.scaleAt + at * 2);
    if (layout.scales == PanelScales::Exponent)
        return exponents(panel + layout.scaleAt + at);
    const std::int64_t super = group * layout.groupWidth / 256 * panelRows + half * 8;
    return _mm256_mul_ps(halves(panel + layout.superScaleAt + super * 2), signedBytes(panel + layout.scaleAt + at));
}

__m256 minOf(const PanelLayout &layout, const std::uint8_t *panel, std::int64_t group, int half)
{
    const std::int64_t at = group * panelRows + half * 8;
    if (layout.scales == PanelScales::Half)
        return halves(panel + layout.minAt + at * 2);
    const std::int64_t super = group * layout.groupWidth / 256 * panelRows + half * 8;
    const __m256 product =
        _mm256_mul_ps(halves(panel + layout.superMinAt + super * 2), unsignedBytes(panel + layout.minAt + at));
    return _mm256_xor_ps(product, _mm256_set1_ps(-0.0F));
}

I tableOf(PanelValues values)
{
    const __m128i iq4 = _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
    const __m128i e2m1 = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    return _mm256_broadcastsi128_si256(values == PanelValues::Iq4Table ? iq4 : e2m1);
}

/// Bit `line` of every byte, moved to bit `target`.
I bitOf(I plane, int line, int target)
{
    const I bit = _mm256_and_si256(_mm256_srl_epi16(plane, _mm_cvtsi32_si128(line)), _mm256_set1_epi8(1));
    return _mm256_sll_epi16(bit, _mm_cvtsi32_si128(target));
}

/// Half a line (8 rows) of a block with nibbles or bit lines.
I unpackHalfLine(const PanelLayout &layout, const std::uint8_t *block, int line, int half)
{
    const std::uint8_t *at = block + half * 32;
    I value = _mm256_setzero_si256();
    if (layout.nibbleLines != 0) {
        value = load(at + line % 4 * lineBytes);
        value = _mm256_and_si256(line < 4 ? value : _mm256_srli_epi16(value, 4), _mm256_set1_epi8(15));
    }
    for (int p = 0; p < layout.bitLines; ++p)
        value = _mm256_or_si256(value,
                                bitOf(load(at + (layout.nibbleLines + p) * lineBytes), line, layout.nibbleLines + p));
    if (layout.values == PanelValues::Iq4Table || layout.values == PanelValues::E2m1Table)
        return _mm256_shuffle_epi8(tableOf(layout.values), value);
    if (layout.values == PanelValues::Signed)
        return _mm256_sub_epi8(value, _mm256_set1_epi8(static_cast<char>(layout.integerOffset)));
    return value;
}

void unpackSmall(const std::uint8_t *block, std::uint8_t *lines)
{
    const I low = _mm256_set1_epi8(15);
    for (int i = 0; i < 8; ++i) {
        const I v = load(block + i * 32);
        _mm256_store_si256(reinterpret_cast<I *>(lines + i * 32), _mm256_and_si256(v, low));
        _mm256_store_si256(reinterpret_cast<I *>(lines + 256 + i * 32), _mm256_and_si256(_mm256_srli_epi16(v, 4), low));
    }
}

void unpackLines(const PanelLayout &layout, const std::uint8_t *block, std::uint8_t *lines)
{
    if (layout.values == PanelValues::Small)
        return unpackSmall(block, lines);
    for (int line = 0; line < 8; ++line) {
        for (int half = 0; half < 2; ++half)
            _mm256_store_si256(reinterpret_cast<I *>(lines + line * lineBytes + half * 32),
                               unpackHalfLine(layout, block, line, half));
    }
}

} // namespace

void unpackPanelAvx2(const PanelLayout &layout, const std::uint8_t *panel, int first, int count, std::uint8_t *lines,
                     float *scales, float *mins)
{
    const int groupsPerBlock = blockWidth / layout.groupWidth;
    for (int g = 0; g < count * groupsPerBlock; ++g) {
        for (int half = 0; half < 2; ++half) {
            _mm256_store_ps(scales + g * panelRows + half * 8,
                            scaleOf(layout, panel, first * groupsPerBlock + g, half));
            if (layout.hasMin)
                _mm256_store_ps(mins + g * panelRows + half * 8,
                                minOf(layout, panel, first * groupsPerBlock + g, half));
        }
    }
    if (lines == nullptr)
        return;
    const std::int64_t bytes = (layout.byteLines + layout.nibbleLines + layout.bitLines) * lineBytes;
    for (int b = 0; b < count; ++b)
        unpackLines(layout, panel + (first + b) * bytes, lines + b * 512);
}

} // namespace kernels
