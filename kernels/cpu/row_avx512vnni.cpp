// SPDX-License-Identifier: GPL-3.0-or-later
// One activation row with VNNI: numbers are taken apart in registers, so a panel is read once and nothing is stored
// on the way. The float operations are those of the tiles, in the same order.
#include "kernels/cpu/level.h"
#include "kernels/cpu/row_products.h"

#include <immintrin.h>

namespace kernels {

namespace {

using I = __m512i;
using Z = __m512;

constexpr int fetchBytes = 8192;

inline __attribute__((always_inline)) I quad(const std::int8_t *p)
{
    int value;
    __builtin_memcpy(&value, p, 4);
    return _mm512_set1_epi32(value);
}

inline __attribute__((always_inline)) I load(const std::uint8_t *p)
{
    return _mm512_loadu_si512(p);
}

/// How numbers lie in a block: bytes, or nibbles (or none) with `Bits` single bits above them, or nibbles that index a
/// table.
enum class Form { Bytes, Planes, Table };

/// What a kernel is made for.
template<Form F_, int Nibbles_, int Bits_, PanelScales Scales_, bool HasMin_, int Groups_> struct Kind {
    static constexpr Form form = F_;
    static constexpr bool nibbles = Nibbles_ != 0;
    static constexpr int bits = Bits_;
    static constexpr PanelScales scales = Scales_;
    static constexpr bool hasMin = HasMin_;
    static constexpr int groups = Groups_; ///< scales of a block
    /// Offsets are 128 >> offsetShift: the middle of what the bits hold, or 128, which makes signed numbers unsigned.
    static constexpr int offsetShift = F_ == Form::Planes ? 8 - 4 * Nibbles_ - Bits_ : 0;
    static constexpr int lines = F_ == Form::Bytes ? 8 : 4 * Nibbles_ + Bits_;
    // Places in a block, as panelLayout() has them.
    static constexpr int scaleSize = Scales_ == PanelScales::Half ? 2 : Scales_ == PanelScales::Single ? 4 : 1;
    static constexpr int minSize = Scales_ == PanelScales::Half ? 2 : 1;
    static constexpr int scaleAt = lines * lineBytes;
    static constexpr int minAt = scaleAt + Groups_ * panelRows * scaleSize;
    static constexpr int blockBytes = minAt + (HasMin_ ? Groups_ * panelRows * minSize : 0);
};

/// Bit `line` of every byte moved to bit `target`; other bits are left as they come.
template<int Line, int Target> inline __attribute__((always_inline)) I moved(I plane)
{
    if constexpr (Target > Line)
        return _mm512_slli_epi16(plane, Target - Line);
    if constexpr (Target < Line)
        return _mm512_srli_epi16(plane, Line - Target);
    return plane;
}

/// value | (other & mask)
inline __attribute__((always_inline)) I orMasked(I value, I other, I mask)
{
    return _mm512_ternarylogic_epi64(value, other, mask, 0xf8);
}

/// Line `Line` of a block as unsigned numbers, offsets still in them.
template<typename K, int Line> inline __attribute__((always_inline)) I lineOf(const std::uint8_t *block, I table)
{
    if constexpr (K::form == Form::Bytes)
        return _mm512_xor_si512(load(block + Line * lineBytes), _mm512_set1_epi8(-128));
    I value = _mm512_setzero_si512();
    if constexpr (K::nibbles) {
        const I pair = load(block + Line % 4 * lineBytes);
        value = _mm512_and_si512(Line < 4 ? pair : _mm512_srli_epi16(pair, 4), _mm512_set1_epi8(15));
    }
    if constexpr (K::form == Form::Table)
        return _mm512_shuffle_epi8(table, value);
    constexpr int low = K::nibbles ? 4 : 0;
    const std::uint8_t *planes = block + low * lineBytes;
    if constexpr (K::bits > 0)
        value = orMasked(value, moved<Line, low>(load(planes)), _mm512_set1_epi8(1 << low));
    if constexpr (K::bits > 1)
        value = orMasked(value, moved<Line, low + 1>(load(planes + lineBytes)), _mm512_set1_epi8(2 << low));
    if constexpr (K::bits > 2)
        value = orMasked(value, moved<Line, low + 2>(load(planes + 2 * lineBytes)), _mm512_set1_epi8(4 << low));
    return value;
}

/// Sum over lines First, First + 1, .. First + Count - 1 in two chains, since one would wait for itself.
template<typename K, int First, int Count>
inline __attribute__((always_inline)) I linesTimes(const std::uint8_t *block, const std::int8_t *a, I start, I table)
{
    I even = start;
    I odd = _mm512_setzero_si512();
    even = _mm512_dpbusd_epi32(even, lineOf<K, First>(block, table), quad(a + First * 4));
    odd = _mm512_dpbusd_epi32(odd, lineOf<K, First + 1>(block, table), quad(a + First * 4 + 4));
    even = _mm512_dpbusd_epi32(even, lineOf<K, First + 2>(block, table), quad(a + First * 4 + 8));
    odd = _mm512_dpbusd_epi32(odd, lineOf<K, First + 3>(block, table), quad(a + First * 4 + 12));
    if constexpr (Count == 8) {
        even = _mm512_dpbusd_epi32(even, lineOf<K, First + 4>(block, table), quad(a + First * 4 + 16));
        odd = _mm512_dpbusd_epi32(odd, lineOf<K, First + 5>(block, table), quad(a + First * 4 + 20));
        even = _mm512_dpbusd_epi32(even, lineOf<K, First + 6>(block, table), quad(a + First * 4 + 24));
        odd = _mm512_dpbusd_epi32(odd, lineOf<K, First + 7>(block, table), quad(a + First * 4 + 28));
    }
    return _mm512_add_epi32(even, odd);
}

inline __attribute__((always_inline)) Z halves(const std::uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)));
}

inline __attribute__((always_inline)) __m128i sixteenBytes(const std::uint8_t *p)
{
    return _mm_loadu_si128(reinterpret_cast<const __m128i *>(p));
}

inline __attribute__((always_inline)) Z signedBytes(const std::uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(sixteenBytes(p)));
}

inline __attribute__((always_inline)) Z unsignedBytes(const std::uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(sixteenBytes(p)));
}

inline __attribute__((always_inline)) Z negative(Z value)
{
    return _mm512_xor_ps(value, _mm512_set1_ps(-0.0F));
}

/// Half of 2^(exponent - 127), to go with doubled numbers; exponents 0 and 1 give subnormal numbers.
inline __attribute__((always_inline)) Z exponents(const std::uint8_t *p)
{
    const I e = _mm512_cvtepu8_epi32(sixteenBytes(p));
    const I normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    const __mmask16 tiny = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
    return _mm512_castsi512_ps(_mm512_mask_sllv_epi32(normal, tiny, _mm512_set1_epi32(0x00200000), e));
}

/// Scales and minimums of 16 rows.
struct GroupScales {
    Z scale;
    Z min;
};

/// What a kernel needs besides the panel's blocks.
struct RowCall {
    const std::uint8_t *superScales;
    const std::uint8_t *superMins;
    I table;
    std::int64_t fetchBytes; ///< how far ahead the panel is fetched, or 0
};

/// Of group `group` of block `b`, which lies at `block`.
template<typename K>
inline __attribute__((always_inline)) GroupScales scalesOf(const RowCall &call, const std::uint8_t *block,
                                                           std::int64_t b, int group)
{
    const std::uint8_t *scales = block + K::scaleAt + group * panelRows * K::scaleSize;
    const std::uint8_t *mins = block + K::minAt + group * panelRows * K::minSize;
    GroupScales result{_mm512_setzero_ps(), _mm512_setzero_ps()};
    if constexpr (K::scales == PanelScales::Half) {
        result.scale = halves(scales);
        if constexpr (K::hasMin)
            result.min = halves(mins);
    } else if constexpr (K::scales == PanelScales::Exponent) {
        result.scale = exponents(scales);
    } else if constexpr (K::scales == PanelScales::Single) {
        result.scale = _mm512_loadu_ps(reinterpret_cast<const float *>(scales));
        if constexpr (K::hasMin)
            result.min = negative(_mm512_mul_ps(result.scale, unsignedBytes(mins)));
    } else {
        const std::int64_t super = b / 8 * panelRows * 2;
        result.scale = _mm512_mul_ps(halves(call.superScales + super), signedBytes(scales));
        if constexpr (K::hasMin)
            result.min = negative(_mm512_mul_ps(halves(call.superMins + super), unsignedBytes(mins)));
    }
    return result;
}

/// What a sum starts with: the offset of the numbers times the activations, `minus128` being -128 x their sum.
template<typename K> inline __attribute__((always_inline)) I startOf(const std::int32_t &minus128)
{
    if constexpr (K::hasMin)
        return _mm512_setzero_si512();
    return _mm512_srai_epi32(_mm512_set1_epi32(minus128), K::offsetShift);
}

/// f, gone on summing with one block of activations.
template<typename K>
inline __attribute__((always_inline)) Z addBlock(Z f, const RowCall &call, const std::uint8_t *block, std::int64_t b,
                                                 const std::int8_t *a, const BlockRecord &record,
                                                 const HalfRecord *half)
{
#pragma GCC unroll 2
    for (int g = 0; g < K::groups; ++g) {
        const I start = startOf<K>(K::groups == 2 ? half[g].minus128 : record.minus128);
        I sum;
        if constexpr (K::groups == 1)
            sum = linesTimes<K, 0, 8>(block, a, start, call.table);
        else
            sum = g == 0 ? linesTimes<K, 0, 4>(block, a, start, call.table)
                         : linesTimes<K, 4, 4>(block, a, start, call.table);
        const GroupScales scales = scalesOf<K>(call, block, b, g);
        f = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(scales.scale, _mm512_set1_ps(record.scale)), f);
        if constexpr (K::hasMin)
            f = _mm512_fmadd_ps(scales.min, _mm512_set1_ps(K::groups == 2 ? half[g].scaledSum : record.scaledSum), f);
    }
    return f;
}

/// Weights of column `k` of block `b`, which lies at `block`.
template<typename K>
inline __attribute__((always_inline)) Z columnOf(const RowCall &call, const std::uint8_t *block, std::int64_t b, int k)
{
    const int line = k / 4;
    const int shift = k % 4 * 8;
    const auto shifted = [](const std::uint8_t *p, int count) {
        return _mm512_srl_epi32(load(p), _mm_cvtsi32_si128(count));
    };
    I number = _mm512_setzero_si512();
    if constexpr (K::form == Form::Bytes)
        number = _mm512_srai_epi32(_mm512_sll_epi32(load(block + line * lineBytes), _mm_cvtsi32_si128(24 - shift)), 24);
    if constexpr (K::nibbles)
        number = _mm512_and_si512(shifted(block + line % 4 * lineBytes, shift + line / 4 * 4), _mm512_set1_epi32(15));
    if constexpr (K::form == Form::Table)
        number = _mm512_and_si512(_mm512_shuffle_epi8(call.table, number), _mm512_set1_epi32(255));
    constexpr int low = K::nibbles ? 4 : 0;
#pragma GCC unroll 4
    for (int p = 0; p < K::bits; ++p) {
        const I bit = _mm512_and_si512(shifted(block + (low + p) * lineBytes, shift + line), _mm512_set1_epi32(1));
        number = _mm512_or_si512(number, _mm512_slli_epi32(bit, low + p));
    }
    if constexpr (K::form != Form::Bytes && !K::hasMin)
        number = _mm512_sub_epi32(number, _mm512_set1_epi32(128 >> K::offsetShift));
    const GroupScales scales = scalesOf<K>(call, block, b, K::groups == 2 ? k / 16 : 0);
    if constexpr (K::hasMin)
        return _mm512_fmadd_ps(scales.scale, _mm512_cvtepi32_ps(number), scales.min);
    return _mm512_mul_ps(scales.scale, _mm512_cvtepi32_ps(number));
}

// Blocks and panels follow one another without a gap. The streams of AMD's cores follow that better than any prefetch,
// which would only take the places of outstanding misses from them; Intel's bring half of what prefetches do.
template<typename K>
__attribute__((noinline)) void row(const RowCall &call, const std::uint8_t *panel, int blocks, const QuantRows &x,
                                   const Outliers &outliers, float *tile)
{
    Z f = _mm512_setzero_ps();
    int next = 0;
    for (int first = 0; first < blocks; first += quantSliceBlocks) {
        const int last = blocks - first < quantSliceBlocks ? blocks : first + quantSliceBlocks;
        for (std::int64_t b = first; b < last; ++b) {
            if (call.fetchBytes != 0) {
#pragma GCC unroll 10
                for (int i = 0; i < K::blockBytes; i += lineBytes)
                    _mm_prefetch(reinterpret_cast<const char *>(panel) + b * K::blockBytes + call.fetchBytes + i,
                                 _MM_HINT_T1);
            }
            f = addBlock<K>(f, call, panel + b * K::blockBytes, b, x.numbers + b * blockWidth, x.blocks[b],
                            K::groups == 2 ? x.halves + b * 2 : nullptr);
        }
        for (; next < outliers.columnCount && outliers.columns[next] < last * blockWidth; ++next) {
            const std::int64_t b = outliers.columns[next] / blockWidth;
            const Z weights = columnOf<K>(call, panel + b * K::blockBytes, b, outliers.columns[next] % blockWidth);
            f = _mm512_fmadd_ps(weights, _mm512_set1_ps(outliers.values[next]), f);
        }
    }
    _mm512_storeu_ps(tile, f);
}

using RowKernel = void (*)(const RowCall &, const std::uint8_t *, int, const QuantRows &, const Outliers &, float *);

template<PanelScales S, bool HasMin, int Groups> RowKernel planesKernel(const PanelLayout &layout)
{
    if (layout.nibbleLines == 0)
        return layout.bitLines == 2 ? row<Kind<Form::Planes, 0, 2, S, HasMin, Groups>>
                                    : row<Kind<Form::Planes, 0, 3, S, HasMin, Groups>>;
    if (layout.bitLines == 0)
        return row<Kind<Form::Planes, 1, 0, S, HasMin, Groups>>;
    return layout.bitLines == 1 ? row<Kind<Form::Planes, 1, 1, S, HasMin, Groups>>
                                : row<Kind<Form::Planes, 1, 2, S, HasMin, Groups>>;
}

template<PanelScales S> RowKernel planesKernel(const PanelLayout &layout)
{
    if (layout.groupWidth == 16)
        return layout.hasMin ? planesKernel<S, true, 2>(layout) : planesKernel<S, false, 2>(layout);
    return layout.hasMin ? planesKernel<S, true, 1>(layout) : planesKernel<S, false, 1>(layout);
}

RowKernel kernelOf(const PanelLayout &layout)
{
    using S = PanelScales;
    if (layout.byteLines != 0)
        return layout.scales == S::Half ? row<Kind<Form::Bytes, 0, 0, S::Half, false, 1>>
                                        : row<Kind<Form::Bytes, 0, 0, S::Single, false, 1>>;
    if (layout.values == PanelValues::E2m1Table)
        return row<Kind<Form::Table, 1, 0, S::Exponent, false, 1>>;
    if (layout.values == PanelValues::Iq4Table)
        return layout.scales == S::Half ? row<Kind<Form::Table, 1, 0, S::Half, false, 1>>
                                        : row<Kind<Form::Table, 1, 0, S::Super, false, 1>>;
    if (layout.scales == S::Half)
        return planesKernel<S::Half>(layout);
    return layout.scales == S::Single ? planesKernel<S::Single>(layout) : planesKernel<S::Super>(layout);
}

/// The numbers that nibbles stand for, moved up by 128.
I tableOf(PanelValues values)
{
    const __m128i iq4 = _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
    const __m128i e2m1 = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    const __m128i numbers = values == PanelValues::Iq4Table ? iq4 : e2m1;
    return _mm512_broadcast_i32x4(_mm_xor_si128(numbers, _mm_set1_epi8(-128)));
}

template<typename K>
void unpack(const std::uint8_t *block, int blockBytes, int count, I table, I offset, int ahead, std::uint8_t *lines)
{
    const auto store = [&](int line, I value) {
        _mm512_store_si512(lines + line * lineBytes, _mm512_sub_epi8(value, offset));
    };
    for (int b = 0; b < count; ++b, block += blockBytes, lines += 8 * lineBytes) {
#pragma GCC unroll 8
        for (int i = 0; i <= K::lines; ++i) // there is time between two panels, unlike at one row
            _mm_prefetch(reinterpret_cast<const char *>(block) + ahead + i * lineBytes, _MM_HINT_T1);
        store(0, lineOf<K, 0>(block, table));
        store(1, lineOf<K, 1>(block, table));
        store(2, lineOf<K, 2>(block, table));
        store(3, lineOf<K, 3>(block, table));
        store(4, lineOf<K, 4>(block, table));
        store(5, lineOf<K, 5>(block, table));
        store(6, lineOf<K, 6>(block, table));
        store(7, lineOf<K, 7>(block, table));
    }
}

template<Form F, int Nibbles, int Bits> using Stored = Kind<F, Nibbles, Bits, PanelScales::Half, false, 1>;

bool isLookedUp(const PanelLayout &layout)
{
    return layout.values == PanelValues::Iq4Table || layout.values == PanelValues::E2m1Table;
}

/// Lines of blocks with `taken` taken off. Meanwhile what lies `ahead` bytes further is fetched.
void unpackLines(const PanelLayout &layout, const std::uint8_t *block, int count, int taken, int ahead,
                 std::uint8_t *lines)
{
    const I table = tableOf(layout.values);
    const I offset = _mm512_set1_epi8(static_cast<char>(taken));
    if (layout.byteLines != 0)
        return unpack<Stored<Form::Bytes, 0, 0>>(block, layout.blockBytes, count, table, offset, ahead, lines);
    if (isLookedUp(layout))
        return unpack<Stored<Form::Table, 1, 0>>(block, layout.blockBytes, count, table, offset, ahead, lines);
    if (layout.nibbleLines == 0)
        return layout.bitLines == 2
            ? unpack<Stored<Form::Planes, 0, 2>>(block, layout.blockBytes, count, table, offset, ahead, lines)
            : unpack<Stored<Form::Planes, 0, 3>>(block, layout.blockBytes, count, table, offset, ahead, lines);
    if (layout.bitLines == 0)
        return unpack<Stored<Form::Planes, 1, 0>>(block, layout.blockBytes, count, table, offset, ahead, lines);
    return layout.bitLines == 1
        ? unpack<Stored<Form::Planes, 1, 1>>(block, layout.blockBytes, count, table, offset, ahead, lines)
        : unpack<Stored<Form::Planes, 1, 2>>(block, layout.blockBytes, count, table, offset, ahead, lines);
}

} // namespace

void unpackLinesAvx512Vnni(const PanelLayout &layout, const std::uint8_t *block, int count, std::uint8_t *lines)
{
    unpackLines(layout, block, count, isLookedUp(layout) ? 128 : layout.integerOffset, fetchBytes, lines);
}

void unpackBytesAvx512Vnni(const PanelLayout &layout, const std::uint8_t *block, int count, std::uint8_t *lines)
{
    const bool lifted = layout.byteLines != 0 || isLookedUp(layout); // by lineOf() already
    const bool plain = lifted || layout.values == PanelValues::Small || layout.hasMin;
    unpackLines(layout, block, count, plain ? 0 : layout.integerOffset + 128, 0, lines);
}

void rowProductsAvx512Vnni(const PanelLayout &layout, const std::uint8_t *panel, const QuantRows &x,
                           const Outliers &outliers, int fetchBytes, float *tile)
{
    const RowCall call{panel + layout.superScaleAt, panel + layout.superMinAt, tableOf(layout.values), fetchBytes};
    kernelOf(layout)(call, panel + layout.linesAt, layout.blocks, x, outliers, tile);
}

} // namespace kernels
