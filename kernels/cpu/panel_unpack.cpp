// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/panel_unpack.h"

#include "kernels/cpu/panel_pack.h"
#include "kernels/dtype.h"
#include "kernels/float_blocks.h"
#include "kernels/integer_blocks.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace kernels {

const std::array<std::int8_t, 16> iq4Numbers{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
const std::array<std::int8_t, 16> doubledE2m1Numbers{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

namespace {

float floatAt(const std::uint8_t *plane, std::int64_t index)
{
    float value = 0.0F;
    std::memcpy(&value, plane + index * 4, 4);
    return value;
}

float halfAt(const std::uint8_t *plane, std::int64_t index)
{
    std::uint16_t half = 0;
    std::memcpy(&half, plane + index * 2, 2);
    return halfToFloat(half);
}

/// Half of 2^(exponent - 127), to go with doubled numbers; exponents 0 and 1 give subnormal numbers.
float halvedExponent(std::uint8_t exponent)
{
    return std::bit_cast<float>(exponent < 2 ? 0x00200000U << exponent
                                             : static_cast<std::uint32_t>(exponent - 1) << 23);
}

int storedNumber(const PanelLayout &layout, const std::uint8_t *lines, int row, int i)
{
    const int line = i / 4;
    const int at = 4 * row + i % 4;
    if (layout.byteLines != 0)
        return static_cast<std::int8_t>(lines[line * lineBytes + at]);
    int number = 0;
    if (layout.nibbleLines != 0)
        number = (lines[line % 4 * lineBytes + at] >> (line < 4 ? 0 : 4)) & 15;
    const std::uint8_t *planes = lines + layout.nibbleLines * lineBytes + at;
    for (int p = 0; p < layout.bitLines; ++p)
        number |= ((planes[p * lineBytes] >> line) & 1) << (layout.nibbleLines + p);
    return number;
}

int panelNumber(const PanelLayout &layout, const std::uint8_t *lines, int row, int i)
{
    const int number = storedNumber(layout, lines, row, i);
    if (layout.values == PanelValues::Iq4Table)
        return iq4Numbers[static_cast<std::size_t>(number)];
    if (layout.values == PanelValues::E2m1Table)
        return doubledE2m1Numbers[static_cast<std::size_t>(number)];
    return number - layout.integerOffset;
}

/// A scale or minimum in the numbers of its block.
std::int64_t placeInBlock(const PanelLayout &layout, std::int64_t group, int row)
{
    return group % (blockWidth / layout.groupWidth) * panelRows + row;
}

const std::uint8_t *blockOfGroup(const PanelLayout &layout, const std::uint8_t *panel, std::int64_t group)
{
    return panel + layout.linesAt + group * layout.groupWidth / blockWidth * layout.blockBytes;
}

float panelScale(const PanelLayout &layout, const std::uint8_t *panel, std::int64_t group, int row)
{
    const std::uint8_t *scales = blockOfGroup(layout, panel, group) + layout.scaleAt;
    const std::int64_t at = placeInBlock(layout, group, row);
    if (layout.scales == PanelScales::Exponent)
        return halvedExponent(scales[at]);
    if (layout.scales == PanelScales::Half)
        return halfAt(scales, at);
    if (layout.scales == PanelScales::Single)
        return floatAt(scales, at);
    const std::int64_t super = group * layout.groupWidth / 256;
    const auto factor = static_cast<std::int8_t>(scales[at]);
    return halfAt(panel + layout.superScaleAt, super * panelRows + row) * static_cast<float>(factor);
}

int panelZero(const PanelLayout &layout, const std::uint8_t *panel, std::int64_t group, int row)
{
    if (layout.scales != PanelScales::Single || !layout.hasMin)
        return 0;
    return blockOfGroup(layout, panel, group)[layout.minAt + placeInBlock(layout, group, row)];
}

float panelMin(const PanelLayout &layout, const std::uint8_t *panel, std::int64_t group, int row)
{
    if (!layout.hasMin)
        return 0.0F;
    const std::uint8_t *mins = blockOfGroup(layout, panel, group) + layout.minAt;
    const std::int64_t at = placeInBlock(layout, group, row);
    if (layout.scales == PanelScales::Half)
        return halfAt(mins, at);
    if (layout.scales == PanelScales::Single)
        return -(panelScale(layout, panel, group, row) * static_cast<float>(panelZero(layout, panel, group, row)));
    const std::int64_t super = group * layout.groupWidth / 256;
    const std::uint8_t factor = mins[at];
    return -(halfAt(panel + layout.superMinAt, super * panelRows + row) * static_cast<float>(factor));
}

/// Block `b` (of 32) of a row of a Raw panel.
void readRawBlock(const PanelLayout &layout, const std::uint8_t *panel, int b, int row, IntegerBlock &block)
{
    const std::int64_t stored = static_cast<std::int64_t>(b / layout.rawParts) * panelRows + row;
    const IntegerBlockReader read = integerBlockReader(static_cast<DType>(layout.rawType));
    read(panel + stored * layout.rawBytes, b % layout.rawParts, block);
}

PanelGroup readRawGroup(const PanelLayout &layout, const std::uint8_t *panel, int group, int row)
{
    IntegerBlock block;
    readRawBlock(layout, panel, group / 2, row, block);
    PanelGroup result{{}, block.scales[static_cast<std::size_t>(group % 2)], 0.0F, 0};
    std::copy_n(block.numbers.begin() + 16 * (group % 2), 16, result.numbers.begin());
    return result;
}

} // namespace

PanelGroup readPanelGroup(const PanelLayout &layout, const std::uint8_t *panel, int group, int row)
{
    if (layout.scales == PanelScales::Raw)
        return readRawGroup(layout, panel, group, row);
    const int start = group * layout.groupWidth;
    const std::uint8_t *lines = blockOfGroup(layout, panel, group);
    PanelGroup result{{},
                      panelScale(layout, panel, group, row),
                      panelMin(layout, panel, group, row),
                      panelZero(layout, panel, group, row)};
    for (int i = 0; i < layout.groupWidth; ++i)
        result.numbers[static_cast<std::size_t>(i)] = panelNumber(layout, lines, row, start % blockWidth + i);
    return result;
}

void unpackRawPanel(const PanelLayout &layout, const std::uint8_t *panel, int first, int count, std::uint8_t *lines,
                    float *scales)
{
    IntegerBlock block;
    for (int b = 0; b < count; ++b) {
        for (int row = 0; row < panelRows; ++row) {
            readRawBlock(layout, panel, first + b, row, block);
            std::uint8_t *target = lines + (b * 8 * lineBytes + 4 * row);
            for (int line = 0; line < 8; ++line)
                std::memcpy(target + line * lineBytes, block.numbers.data() + 4 * line, 4);
            scales[2 * b * panelRows + row] = block.scales[0];
            scales[(2 * b + 1) * panelRows + row] = block.scales[1];
        }
    }
}

void widenCodedColumns(const PanelLayout &layout, const std::uint8_t *panel, int first, int count, float *target)
{
    const FloatBlockReader read = floatBlockReader(static_cast<DType>(layout.rawType));
    float values[blockWidth];
    for (int b = 0; b < count / blockWidth; ++b) {
        for (int row = 0; row < panelRows; ++row) {
            read(panel + (static_cast<std::int64_t>(first / blockWidth + b) * panelRows + row) * layout.rawBytes,
                 values);
            float *column = target + b * blockWidth * panelRows + row;
            for (int i = 0; i < blockWidth; ++i)
                column[i * panelRows] = values[i];
        }
    }
}

int blockLineBytes(const PanelLayout &layout)
{
    return (layout.byteLines + layout.nibbleLines + layout.bitLines) * lineBytes;
}

float panelFloat(PanelValues values, const std::uint8_t *panel, std::int64_t index)
{
    if (values == PanelValues::Half)
        return halfAt(panel, index);
    if (values == PanelValues::Brain) {
        std::uint16_t brain = 0;
        std::memcpy(&brain, panel + index * 2, 2);
        return bf16ToFloat(brain);
    }
    return floatAt(panel, index);
}

void expandPanelRow(const PanelLayout &layout, const std::uint8_t *panel, int row, float *target)
{
    if (layout.values == PanelValues::Coded) {
        const FloatBlockReader read = floatBlockReader(static_cast<DType>(layout.rawType));
        for (std::int64_t b = 0; b < layout.columns / blockWidth; ++b)
            read(panel + (b * panelRows + row) * layout.rawBytes, target + b * blockWidth);
        return;
    }
    if (layout.blocks == 0) {
        for (std::int64_t k = 0; k < layout.columns; ++k)
            target[k] = panelFloat(layout.values, panel, k * panelRows + row);
        return;
    }
    for (int group = 0; group < layout.columns / layout.groupWidth; ++group) {
        const PanelGroup stored = readPanelGroup(layout, panel, group, row);
        for (int i = 0; i < layout.groupWidth; ++i) {
            const int number = stored.numbers[static_cast<std::size_t>(i)] - stored.zero;
            const float product = stored.scale * static_cast<float>(number);
            const bool adds = layout.hasMin && layout.scales != PanelScales::Single;
            target[group * layout.groupWidth + i] = adds ? product + stored.min : product;
        }
    }
}

} // namespace kernels
