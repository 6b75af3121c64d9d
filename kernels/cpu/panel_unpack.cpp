// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/panel_unpack.h"

#include "kernels/cpu/panel_pack.h"
#include "kernels/dtype.h"

#include <bit>
#include <cstring>

namespace kernels {

const std::array<std::int8_t, 16> iq4Numbers{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
const std::array<std::int8_t, 16> doubledE2m1Numbers{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

namespace {

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

} // namespace

int panelNumber(const PanelLayout &layout, const std::uint8_t *lines, int row, int i)
{
    const int number = storedNumber(layout, lines, row, i);
    if (layout.values == PanelValues::Iq4Table)
        return iq4Numbers[static_cast<std::size_t>(number)];
    if (layout.values == PanelValues::E2m1Table)
        return doubledE2m1Numbers[static_cast<std::size_t>(number)];
    return number - layout.integerOffset;
}

float panelScale(const PanelLayout &layout, const std::uint8_t *panel, std::int64_t group, int row)
{
    const std::int64_t at = group * panelRows + row;
    if (layout.scales == PanelScales::Exponent)
        return halvedExponent(panel[layout.scaleAt + static_cast<std::size_t>(at)]);
    if (layout.scales == PanelScales::Half)
        return halfAt(panel + layout.scaleAt, at);
    const std::int64_t super = group * layout.groupWidth / 256;
    const auto factor = static_cast<std::int8_t>(panel[layout.scaleAt + static_cast<std::size_t>(at)]);
    return halfAt(panel + layout.superScaleAt, super * panelRows + row) * static_cast<float>(factor);
}

float panelMin(const PanelLayout &layout, const std::uint8_t *panel, std::int64_t group, int row)
{
    if (!layout.hasMin)
        return 0.0F;
    const std::int64_t at = group * panelRows + row;
    if (layout.scales == PanelScales::Half)
        return halfAt(panel + layout.minAt, at);
    const std::int64_t super = group * layout.groupWidth / 256;
    const std::uint8_t factor = panel[layout.minAt + static_cast<std::size_t>(at)];
    return -(halfAt(panel + layout.superMinAt, super * panelRows + row) * static_cast<float>(factor));
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
    float value = 0.0F;
    std::memcpy(&value, panel + index * 4, 4);
    return value;
}

void expandPanelRow(const PanelLayout &layout, const std::uint8_t *panel, int row, float *target)
{
    if (layout.blocks == 0) {
        for (std::int64_t k = 0; k < layout.columns; ++k)
            target[k] = panelFloat(layout.values, panel, k * panelRows + row);
        return;
    }
    const int bytes = blockLineBytes(layout);
    for (int start = 0; start < layout.columns; start += layout.groupWidth) {
        const std::uint8_t *lines =
            panel + static_cast<std::size_t>(start / blockWidth) * static_cast<std::size_t>(bytes);
        const float scale = panelScale(layout, panel, start / layout.groupWidth, row);
        const float min = panelMin(layout, panel, start / layout.groupWidth, row);
        for (int i = start; i < start + layout.groupWidth; ++i) {
            const float product = scale * static_cast<float>(panelNumber(layout, lines, row, i % blockWidth));
            target[i] = layout.hasMin ? product + min : product;
        }
    }
}

} // namespace kernels
