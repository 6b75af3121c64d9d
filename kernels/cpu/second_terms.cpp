// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/level.h"

#include <cstring>

namespace kernels {

namespace {

PanelSlice blockOf(const PanelSlice &slice, int block, int groupsPerBlock)
{
    const std::int64_t group = static_cast<std::int64_t>(block) * groupsPerBlock * panelRows;
    return {slice.lines + static_cast<std::int64_t>(block) * slice.bytesPerBlock,
            slice.scales + group,
            slice.mins != nullptr ? slice.mins + group : nullptr,
            1,
            slice.bytesPerBlock,
            slice.offsetShift};
}

QuantRows termsFrom(const QuantRows &terms, std::int64_t first)
{
    return {terms.numbers + first * terms.stride, terms.blocks + first,
            terms.halves != nullptr ? terms.halves + first * 2 : nullptr, terms.stride, terms.blocksPerRow};
}

void copyRow(const float *from, float *to)
{
    std::memcpy(to, from, panelRows * sizeof(float));
}

} // namespace

void addSecondTerms(SliceProducts products, const PanelSlice &slice, int firstBlock, int groupsPerBlock,
                    const SecondTerms &second, int rows, float *gathered, float *tile)
{
    for (int b = 0; b < slice.blocks; ++b) {
        const std::int32_t first = second.starts[firstBlock + b];
        const int count = second.starts[firstBlock + b + 1] - first;
        if (count == 0)
            continue;
        const PanelSlice block = blockOf(slice, b, groupsPerBlock);
        const QuantRows terms = termsFrom(second.terms, first);
        if (count == rows) {
            products(block, terms, 0, rows, false, tile);
            continue;
        }
        const std::uint8_t *chosen = second.rows + first;
        for (int i = 0; i < count; ++i)
            copyRow(tile + chosen[i] * panelRows, gathered + i * panelRows);
        products(block, terms, 0, count, false, gathered);
        for (int i = 0; i < count; ++i)
            copyRow(gathered + i * panelRows, tile + chosen[i] * panelRows);
    }
}

} // namespace kernels
