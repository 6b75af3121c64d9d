// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/quantized_layouts.h"

#include <algorithm>
#include <numeric>

namespace engine {
namespace {

using Entry = SafetensorsSet::Entry;
using kernels::DType;

void checkColumns(const QuantizedParts &parts, const Entry &entry, std::int64_t columns)
{
    if (columns % blockColumns != 0)
        parts.refuse(
            entry, "has " + std::to_string(columns) + " columns, wanted a multiple of " + std::to_string(blockColumns));
}

/// The group of every column; empty when the tensor says nothing.
std::vector<std::int32_t> columnGroups(const QuantizedParts &parts, const Entry &index, std::int64_t columns,
                                       std::int64_t count)
{
    parts.needType(index, "I32");
    parts.needShape(index, {columns});
    const std::vector<std::uint32_t> words = wordsOf(parts.set(), index);
    std::vector<std::int32_t> groups(words.begin(), words.end());
    for (std::size_t k = 0; k < groups.size(); ++k) {
        if (groups[k] < 0 || groups[k] >= count)
            parts.refuse(index,
                         "gives column " + std::to_string(k) + " the group " + std::to_string(groups[k])
                             + ", wanted 0 to " + std::to_string(count - 1));
    }
    if (std::all_of(groups.begin(), groups.end(), [](std::int32_t group) { return group == 0; }))
        return {};
    return groups;
}

} // namespace

ColumnGroups evenGroups(const QuantizedParts &parts, const Entry &entry, std::int64_t columns, std::int64_t groupSize)
{
    checkColumns(parts, entry, columns);
    const std::int64_t size = groupSize == 0 ? columns : groupSize;
    if (size < columns && size % blockColumns != 0)
        parts.refuse(entry,
                     "has groups of " + std::to_string(size) + " columns, wanted a multiple of "
                         + std::to_string(blockColumns));
    ColumnGroups result;
    result.count = (columns + size - 1) / size;
    for (std::int64_t first = 0; first < columns; first += blockColumns)
        result.ofBlocks.push_back(static_cast<std::int32_t>(first / size));
    return result;
}

ColumnGroups indexedGroups(const QuantizedParts &parts, const Entry &entry, const Entry *index, std::int64_t columns,
                           std::int64_t groupSize)
{
    ColumnGroups result = evenGroups(parts, entry, columns, groupSize);
    if (index == nullptr)
        return result;
    const std::vector<std::int32_t> groups = columnGroups(parts, *index, columns, result.count);
    if (groups.empty())
        return result;
    std::vector<std::int32_t> order(groups.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&groups](std::int32_t a, std::int32_t b) {
        return groups[static_cast<std::size_t>(a)] < groups[static_cast<std::size_t>(b)];
    });
    for (std::size_t k = 0; k < order.size(); ++k) {
        const std::int32_t group = groups[static_cast<std::size_t>(order[k])];
        if (k % blockColumns == 0)
            result.ofBlocks[k / blockColumns] = group;
        else if (group != result.ofBlocks[k / blockColumns])
            parts.refuse(*index,
                         "begins group " + std::to_string(group) + " after " + std::to_string(k)
                             + " columns, wanted groups of a multiple of " + std::to_string(blockColumns));
    }
    if (!std::is_sorted(order.begin(), order.end()))
        result.columnOrder = std::move(order);
    return result;
}

bool allZerosAre(const GroupZero &zero, std::int64_t rows, std::int64_t groups, int value)
{
    for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t group = 0; group < groups; ++group) {
            if (zero(row, group) != value)
                return false;
        }
    }
    return true;
}

DType integerType(int bits, bool middleZeros, const SafetensorsTensor &scales)
{
    const bool half = scales.type == "F16";
    switch (bits) {
    case 2:
        return DType::INT2;
    case 3:
        return DType::INT3;
    case 4:
        return middleZeros && half ? DType::Q4_0 : DType::INT4;
    default:
        CHECK(bits == 8);
        return !middleZeros ? DType::INT8Z : half ? DType::Q8_0 : DType::INT8;
    }
}

} // namespace engine
