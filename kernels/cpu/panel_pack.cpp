// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/panel_pack.h"

#include "kernels/cpu/panel_blocks.h"
#include "kernels/cpu/panel_unpack.h"
#include "kernels/error.h"
#include "kernels/float_blocks.h"
#include "kernels/integer_blocks.h"

#include <algorithm>
#include <cstring>

namespace kernels {

namespace {

std::size_t aligned(std::size_t bytes)
{
    return (bytes + lineBytes - 1) / lineBytes * lineBytes;
}

/// The numbers of a type: values, integer offset, byte, nibble and bit lines, scales, minimum, group width.
PanelLayout quantLayout(DType type)
{
    using V = PanelValues;
    using S = PanelScales;
    const auto make = [](V values, S scales, bool hasMin, int group, int offset, int bytes, int nibbles, int bits) {
        PanelLayout layout{};
        layout.values = values;
        layout.scales = scales;
        layout.hasMin = hasMin;
        layout.groupWidth = static_cast<std::uint8_t>(group);
        layout.integerOffset = static_cast<std::uint8_t>(offset);
        layout.byteLines = static_cast<std::uint8_t>(bytes);
        layout.nibbleLines = static_cast<std::uint8_t>(nibbles);
        layout.bitLines = static_cast<std::uint8_t>(bits);
        return layout;
    };
    switch (type) {
    case DType::Q4_0:
        return make(V::Small, S::Half, false, 32, 8, 0, 4, 0);
    case DType::Q4_1:
        return make(V::Small, S::Half, true, 32, 0, 0, 4, 0);
    case DType::Q5_0:
        return make(V::Signed, S::Half, false, 32, 16, 0, 4, 1);
    case DType::Q5_1:
        return make(V::Unsigned, S::Half, true, 32, 0, 0, 4, 1);
    case DType::Q8_0:
        return make(V::Signed, S::Half, false, 32, 0, 8, 0, 0);
    case DType::Q2_K:
        return make(V::Unsigned, S::Super, true, 16, 0, 0, 0, 2);
    case DType::Q3_K:
        return make(V::Signed, S::Super, false, 16, 4, 0, 0, 3);
    case DType::Q4_K:
        return make(V::Small, S::Super, true, 32, 0, 0, 4, 0);
    case DType::Q5_K:
        return make(V::Unsigned, S::Super, true, 32, 0, 0, 4, 1);
    case DType::Q6_K:
        return make(V::Signed, S::Super, false, 16, 32, 0, 4, 2);
    case DType::IQ4_NL:
        return make(V::Iq4Table, S::Half, false, 32, 0, 0, 4, 0);
    case DType::INT2:
        return make(V::Unsigned, S::Single, true, 32, 0, 0, 0, 2);
    case DType::INT3:
        return make(V::Unsigned, S::Single, true, 32, 0, 0, 0, 3);
    case DType::INT4:
        return make(V::Small, S::Single, true, 32, 0, 0, 4, 0);
    case DType::INT8:
    case DType::W8A8: // activations are rounded in blocks, which is finer than the file asks for
        return make(V::Signed, S::Single, false, 32, 0, 8, 0, 0);
    case DType::IQ4_XS:
        return make(V::Iq4Table, S::Super, false, 32, 0, 0, 4, 0);
    default:
        CHECK(type == DType::MXFP4);
        return make(V::E2m1Table, S::Exponent, false, 32, 0, 0, 4, 0);
    }
}

/// Codebooks and ternary digits have no planes of bits: the rows keep their blocks.
PanelLayout rawLayout(DType type, std::int64_t columns)
{
    const DTypeInfo &stored = info(type);
    PanelLayout layout{};
    layout.values = PanelValues::Signed;
    layout.scales = PanelScales::Raw;
    layout.groupWidth = 16;
    layout.rawType = static_cast<std::uint8_t>(type);
    layout.rawParts = static_cast<std::uint8_t>(stored.blockElements / blockWidth);
    layout.rawBytes = static_cast<std::uint8_t>(stored.blockBytes);
    layout.columns = static_cast<std::int32_t>(columns);
    layout.blocks = static_cast<std::int32_t>(columns / blockWidth);
    layout.panelBytes = aligned(rowBytes(type, columns) * panelRows);
    return layout;
}

/// Floats with a table or a scale of their own: as Raw, but they are widened to floats, not to bytes.
PanelLayout codedLayout(DType type, std::int64_t columns)
{
    PanelLayout layout = rawLayout(type, columns);
    layout.values = PanelValues::Coded;
    layout.scales = PanelScales::None;
    layout.groupWidth = 0;
    layout.blocks = 0;
    return layout;
}

void packRawPanel(const WeightPart &part, const PanelLayout &layout, std::int64_t firstRow, std::int64_t rows,
                  std::uint8_t *panel)
{
    const std::size_t rowSize = rowBytes(part.type, part.columns);
    const std::size_t size = layout.rawBytes;
    for (std::int64_t r = 0; r < rows; ++r) {
        const std::byte *source = part.data + static_cast<std::size_t>(firstRow + r) * rowSize;
        for (std::size_t b = 0; b < rowSize / size; ++b)
            std::memcpy(panel + (b * panelRows + static_cast<std::size_t>(r)) * size, source + b * size, size);
    }
}

PanelLayout floatLayout(DType type, std::int64_t columns)
{
    PanelLayout layout{};
    layout.values = type == DType::F32 ? PanelValues::Float
        : type == DType::F16           ? PanelValues::Half
                                       : PanelValues::Brain;
    layout.columns = static_cast<std::int32_t>(columns);
    layout.panelBytes =
        aligned(static_cast<std::size_t>(columns) * panelRows * static_cast<std::size_t>(info(type).blockBytes));
    return layout;
}

/// Column by column, as the panel has them, so that its memory is written in order.
template<typename Element>
void packColumns(const WeightPart &part, std::int64_t firstRow, std::int64_t rows, std::uint8_t *panel)
{
    const auto rowSize = static_cast<std::size_t>(part.columns) * sizeof(Element);
    const std::byte *source = part.data + static_cast<std::size_t>(firstRow) * rowSize;
    for (std::int64_t k = 0; k < part.columns; ++k, source += sizeof(Element), panel += panelRows * sizeof(Element)) {
        for (std::int64_t r = 0; r < rows; ++r)
            std::memcpy(panel + static_cast<std::size_t>(r) * sizeof(Element),
                        source + static_cast<std::size_t>(r) * rowSize, sizeof(Element));
    }
}

void packFloatPanel(const WeightPart &part, std::int64_t firstRow, std::int64_t rows, std::uint8_t *panel)
{
    if (part.type == DType::F32)
        packColumns<std::uint32_t>(part, firstRow, rows, panel);
    else
        packColumns<std::uint16_t>(part, firstRow, rows, panel);
}

/// A row's 32 numbers in words of 4, as lines have them.
void packLines(const RawBlock &block, const PanelLayout &layout, int row, std::uint8_t *lines)
{
    std::array<std::uint32_t, 8> words;
    static_assert(sizeof(words) == sizeof(block.quants));
    std::memcpy(words.data(), block.quants.data(), sizeof(words));
    const auto store = [lines, row](int line, std::uint32_t word) {
        std::memcpy(lines + line * lineBytes + 4 * row, &word, sizeof(word));
    };
    for (std::size_t i = 0; i < 8 && layout.byteLines != 0; ++i)
        store(static_cast<int>(i), words[i]);
    for (std::size_t i = 0; i < 4 && layout.nibbleLines != 0; ++i)
        store(static_cast<int>(i), (words[i] & 0x0f0f0f0fU) | (words[i + 4] & 0x0f0f0f0fU) << 4U);
    for (int p = 0; p < layout.bitLines; ++p) {
        std::uint32_t plane = 0;
        for (std::size_t i = 0; i < 8; ++i)
            plane |= ((words[i] >> static_cast<unsigned>(layout.nibbleLines + p)) & 0x01010101U) << i;
        store(layout.byteLines + layout.nibbleLines + p, plane);
    }
}

void store16(std::uint8_t *plane, std::int64_t at, std::uint16_t value)
{
    std::memcpy(plane + at * 2, &value, 2);
}

/// What eight blocks share.
void packSuperScales(const RawBlock &block, const PanelLayout &layout, std::int64_t b, int row, std::uint8_t *panel)
{
    const std::int64_t at = b / 8 * panelRows + row;
    store16(panel + layout.superScaleAt, at, block.scale);
    if (layout.hasMin)
        store16(panel + layout.superMinAt, at, block.min);
}

void packScales(const RawBlock &block, const PanelLayout &layout, int row, std::uint8_t *target)
{
    std::uint8_t *scales = target + layout.scaleAt;
    std::uint8_t *mins = target + layout.minAt;
    if (layout.scales == PanelScales::Exponent) {
        scales[row] = static_cast<std::uint8_t>(block.scale);
    } else if (layout.scales == PanelScales::Half) {
        store16(scales, row, block.scale);
        if (layout.hasMin)
            store16(mins, row, block.min);
    } else if (layout.scales == PanelScales::Single) {
        std::memcpy(scales + static_cast<std::size_t>(row) * sizeof(float), &block.single, sizeof(float));
        if (layout.hasMin)
            mins[row] = block.zero;
    } else {
        for (int g = 0; g < blockWidth / layout.groupWidth; ++g) {
            const int at = g * panelRows + row;
            scales[at] = static_cast<std::uint8_t>(block.factors[static_cast<std::size_t>(g)]);
            if (layout.hasMin)
                mins[at] = block.minFactors[static_cast<std::size_t>(g)];
        }
    }
}

/// Bit 4i + j of a block's fifth bits becomes bit i of byte j, as a line of bits has it: two perfect unshuffles.
std::uint32_t bitLine(std::uint32_t bits)
{
    const auto swap = [&bits](std::uint32_t mask, unsigned shift) {
        const std::uint32_t changed = (bits ^ bits >> shift) & mask;
        bits ^= changed ^ changed << shift;
    };
    for (int round = 0; round < 2; ++round) {
        swap(0x22222222U, 1);
        swap(0x0c0c0c0cU, 2);
        swap(0x00f000f0U, 4);
        swap(0x0000ff00U, 8);
    }
    return bits;
}

/// A row of blocks of scale, minimum, fifth bits and numbers, each as far as the type has it, of which the numbers
/// stand in the order of the lines: words are copied as they are.
template<int Words, bool HasMin, bool HasBits>
void packWords(const std::uint8_t *source, const PanelLayout &layout, int row, std::uint8_t *panel)
{
    std::uint8_t *target = panel + layout.linesAt;
    for (int b = 0; b < layout.blocks; ++b, target += layout.blockBytes) {
        std::memcpy(target + layout.scaleAt + 2 * row, source, 2);
        source += 2;
        if constexpr (HasMin) {
            std::memcpy(target + layout.minAt + 2 * row, source, 2);
            source += 2;
        }
        if constexpr (HasBits) {
            std::uint32_t bits = 0;
            std::memcpy(&bits, source, 4);
            bits = bitLine(bits);
            std::memcpy(target + Words * lineBytes + 4 * row, &bits, 4);
            source += 4;
        }
        for (int i = 0; i < Words; ++i, source += 4)
            std::memcpy(target + i * lineBytes + 4 * row, source, 4);
    }
}

using PackWords = void (*)(const std::uint8_t *source, const PanelLayout &layout, int row, std::uint8_t *panel);

/// Null for types whose numbers have to be taken apart first.
PackWords wordPacker(DType type)
{
    switch (type) {
    case DType::Q4_0:
    case DType::IQ4_NL:
        return packWords<4, false, false>;
    case DType::Q4_1:
        return packWords<4, true, false>;
    case DType::Q5_0:
        return packWords<4, false, true>;
    case DType::Q5_1:
        return packWords<4, true, true>;
    case DType::Q8_0:
        return packWords<8, false, false>;
    default:
        return nullptr;
    }
}

} // namespace

PanelLayout panelLayout(DType type, std::int64_t columns)
{
    if (!info(type).quantized)
        return floatLayout(type, columns);
    if (integerBlockReader(type) != nullptr)
        return rawLayout(type, columns);
    if (floatBlockReader(type) != nullptr)
        return codedLayout(type, columns);
    PanelLayout layout = quantLayout(type);
    layout.columns = static_cast<std::int32_t>(columns);
    layout.blocks = static_cast<std::int32_t>(columns / blockWidth);
    const auto blocks = static_cast<std::size_t>(layout.blocks);
    const int numbers = blockWidth / layout.groupWidth * panelRows; // scales of a block
    const int scaleSize = layout.scales == PanelScales::Single ? 4 : layout.scales == PanelScales::Half ? 2 : 1;
    const int minSize = layout.scales == PanelScales::Half ? 2 : 1;
    layout.scaleAt = blockLineBytes(layout);
    layout.minAt = layout.scaleAt + numbers * scaleSize;
    layout.blockBytes = layout.minAt + (layout.hasMin ? numbers * minSize : 0);
    const std::size_t superBytes = layout.scales == PanelScales::Super ? blocks / 8 * panelRows * 2 : 0;
    layout.superMinAt = superBytes;
    layout.linesAt = aligned(layout.hasMin ? 2 * superBytes : superBytes);
    layout.panelBytes = aligned(layout.linesAt + blocks * static_cast<std::size_t>(layout.blockBytes));
    return layout;
}

void packPanel(const WeightPart &part, const PanelLayout &layout, std::int64_t firstRow, std::uint8_t *panel)
{
    const std::int64_t rows = std::min<std::int64_t>(panelRows, part.rows - firstRow);
    if (layout.blocks == 0 && layout.values != PanelValues::Coded) {
        packFloatPanel(part, firstRow, rows, panel);
        return;
    }
    if (layout.scales == PanelScales::Raw || layout.values == PanelValues::Coded) {
        packRawPanel(part, layout, firstRow, rows, panel);
        return;
    }
    const std::size_t rowSize = rowBytes(part.type, part.columns);
    const PackWords words = wordPacker(part.type);
    for (int r = 0; r < rows; ++r) {
        const auto *source =
            reinterpret_cast<const std::uint8_t *>(part.data) + static_cast<std::size_t>(firstRow + r) * rowSize;
        if (words != nullptr) {
            words(source, layout, r, panel);
            continue;
        }
        for (std::int64_t b = 0; b < layout.blocks; ++b) {
            const RawBlock block = readRawBlock(part.type, source, b);
            std::uint8_t *target = panel + layout.linesAt + b * layout.blockBytes;
            packLines(block, layout, r, target);
            packScales(block, layout, r, target);
            if (layout.scales == PanelScales::Super && b % 8 == 0)
                packSuperScales(block, layout, b, r, panel);
        }
    }
}

} // namespace kernels
