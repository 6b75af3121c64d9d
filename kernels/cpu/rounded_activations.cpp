// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/rounded_activations.h"

#include "kernels/checks.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace kernels {

namespace {

constexpr int roundRowsPerPart = 8;
constexpr std::int64_t blocksPerOutlier = 3; // one block of so many gets an outlier

/// A number that `wanted` of `keys`, none of them negative, reach, or the largest one that more of them reach; 0 when
/// fewer are above 0. Sorting a few dozen mispredicts branches for longer than this takes.
std::int32_t reachedBy(const std::int32_t *keys, std::int64_t count, std::int64_t wanted)
{
    std::int32_t reached = 0;
    for (int bit = 30; bit >= 0; --bit) {
        const std::int32_t more = reached | std::int32_t{1} << bit;
        std::int32_t reaching = 0;
        for (std::int64_t i = 0; i < count; ++i)
            reaching += keys[i] >= more ? 1 : 0;
        if (reaching == wanted)
            return more;
        reached = reaching > wanted ? more : reached;
    }
    return reached;
}

} // namespace

void RoundedActivations::reserve(std::int64_t rows, std::int64_t tiles, std::int64_t blocks, bool halves, bool grouped,
                                 int threads)
{
    m_blocksPerRow = blocks;
    m_mostPerRow = std::max<std::int64_t>(1, (blocks + blocksPerOutlier / 2) / blocksPerOutlier);
    const auto all = static_cast<std::size_t>(rows * blocks);
    const auto outliers = static_cast<std::size_t>(rows * m_mostPerRow);
    m_numbers = m_numberMemory.reserve<std::int8_t>(all * blockWidth);
    m_blocks = m_blockMemory.reserve<BlockRecord>(all);
    m_halves = halves ? m_halfMemory.reserve<HalfRecord>(all * 2) : nullptr;
    const auto groups = static_cast<std::size_t>(rows / groupRows * blocks);
    m_groups = grouped ? m_groupMemory.reserve<GroupBlock>(groups) : nullptr;
    m_groupHalves = grouped && halves ? m_groupHalfMemory.reserve<GroupHalves>(groups) : nullptr;
    m_keys = m_keyMemory.reserve<std::int32_t>(static_cast<std::size_t>(threads * blocks));
    m_seen = m_seenMemory.reserve<std::uint64_t>(static_cast<std::size_t>(threads * blocks));
    m_placeOf = m_placeOfMemory.reserve<std::int32_t>(static_cast<std::size_t>(threads * blocks * blockWidth));
    m_counts = m_countMemory.reserve<std::int32_t>(static_cast<std::size_t>(rows));
    m_places = m_placeMemory.reserve<std::int32_t>(outliers);
    m_values = m_valueMemory.reserve<float>(outliers);
    m_columns = m_columnMemory.reserve<std::int32_t>(outliers);
    m_columnCounts = m_columnCountMemory.reserve<std::int32_t>(static_cast<std::size_t>(tiles));
}

void RoundedActivations::round(const LevelKernels &level, ThreadPool &pool, const TensorView &x,
                               std::span<const RowRange> tiles, bool halves)
{
    const std::int64_t rows = x.shape[0];
    reserve(rows, std::ssize(tiles), x.shape[1] / blockWidth, halves, level.takesGroups, pool.threads());
    const auto parts = static_cast<int>((rows + roundRowsPerPart - 1) / roundRowsPerPart);
    pool.run(parts, [&](int part, int thread) {
        const std::int64_t first = static_cast<std::int64_t>(part) * roundRowsPerPart;
        for (std::int64_t row = first; row < std::min(rows, first + roundRowsPerPart); ++row)
            roundRow(level, rowOf(x, row), row, m_keys + thread * m_blocksPerRow);
    });
    pool.run(static_cast<int>(tiles.size()), [&](int part, int thread) {
        const RowRange &range = tiles[static_cast<std::size_t>(part)];
        listColumns(range, part, thread);
        if (m_groups != nullptr)
            group(range);
    });
}

void RoundedActivations::roundRow(const LevelKernels &level, const float *x, std::int64_t row, std::int32_t *keys)
{
    const std::int64_t at = row * m_blocksPerRow;
    level.quantizeRow(x, static_cast<int>(m_blocksPerRow * blockWidth), m_numbers + at * blockWidth, m_blocks + at,
                      m_halves != nullptr ? m_halves + at * 2 : nullptr);
    std::int32_t *columns = m_places + row * m_mostPerRow;
    float *values = m_values + row * m_mostPerRow;
    const std::int64_t count = chooseBlocks(row, keys, columns);
    m_counts[row] = static_cast<std::int32_t>(count);
    for (std::int64_t i = 0; i < count; ++i) {
        const std::int32_t block = columns[i];
        columns[i] = block * blockWidth
            + level.roundRest(x + block * blockWidth, m_numbers + (at + block) * blockWidth, m_blocks[at + block],
                              m_halves != nullptr ? m_halves + (at + block) * 2 : nullptr);
        values[i] = x[columns[i]];
    }
}

std::int64_t RoundedActivations::chooseBlocks(std::int64_t row, std::int32_t *keys, std::int32_t *chosen) const
{
    const BlockRecord *records = m_blocks + row * m_blocksPerRow;
    for (std::int64_t block = 0; block < m_blocksPerRow; ++block) // bits of a scale have its order
        keys[block] = records[block].scale > 0.0F ? std::bit_cast<std::int32_t>(records[block].scale) : 0; // NaN: 0
    const std::int32_t least = reachedBy(keys, m_blocksPerRow, m_mostPerRow);
    std::int64_t above = 0;
    for (std::int64_t block = 0; block < m_blocksPerRow; ++block)
        above += keys[block] > least ? 1 : 0;
    std::int64_t equal = least > 0 ? m_mostPerRow - above : 0; // of those that reach it just so, the first ones
    std::int64_t count = 0;
    for (std::int64_t block = 0; block < m_blocksPerRow; ++block) {
        const bool same = keys[block] == least && equal > 0;
        equal -= same ? 1 : 0;
        if (same || keys[block] > least)
            chosen[count++] = static_cast<std::int32_t>(block);
    }
    return count;
}

/// Lists the columns of a tile's outliers, and replaces each outlier's column by its place in that list.
void RoundedActivations::listColumns(const RowRange &range, std::int64_t index, int thread)

{
    std::int32_t *placeOf = m_placeOf + thread * m_blocksPerRow * blockWidth;
    std::uint64_t *seen = m_seen + thread * m_blocksPerRow; // a bit for each column
    const std::int64_t words = (m_blocksPerRow + 1) / 2;
    const auto overAll = [&](auto body) {
        for (std::int64_t row = range.first; row < range.first + range.rows; ++row) {
            std::int32_t *places = m_places + row * m_mostPerRow;
            std::for_each(places, places + m_counts[row], body);
        }
    };
    std::fill_n(seen, words, 0);
    overAll([&](std::int32_t column) { seen[column / 64] |= std::uint64_t{1} << column % 64; });
    std::int32_t *list = m_columns + range.first * m_mostPerRow;
    std::int32_t count = 0;
    for (std::int64_t word = 0; word < words; ++word) {
        for (std::uint64_t bits = seen[word]; bits != 0; bits &= bits - 1) {
            const auto column = static_cast<std::int32_t>(word * 64 + std::countr_zero(bits));
            placeOf[column] = count;
            list[count++] = column;
        }
    }
    overAll([&](std::int32_t &place) { place = placeOf[place]; });
    m_columnCounts[index] = count;
}

void RoundedActivations::group(const RowRange &range)
{
    std::int64_t target = firstGroup(range.first);
    for (std::int64_t row = range.first; row + groupRows <= range.first + range.rows; row += groupRows) {
        for (std::int64_t block = 0; block < m_blocksPerRow; ++block)
            groupBlock(row, block, target++);
    }
}

void RoundedActivations::groupBlock(std::int64_t row, std::int64_t block, std::int64_t target)
{
    GroupBlock &together = m_groups[target];
    for (int r = 0; r < groupRows; ++r) {
        const std::int64_t at = (row + r) * m_blocksPerRow + block;
        const BlockRecord &record = m_blocks[at];
        std::memcpy(together.numbers[r], m_numbers + at * blockWidth, blockWidth);
        together.scales[r] = record.scale;
        together.scaledSums[r] = record.scaledSum;
        together.minus128[r] = record.minus128;
        together.minus8[r] = record.minus8;
        for (int half = 0; half < 2 && m_groupHalves != nullptr; ++half) {
            m_groupHalves[target].scaledSums[half][r] = m_halves[at * 2 + half].scaledSum;
            m_groupHalves[target].minus128[half][r] = m_halves[at * 2 + half].minus128;
        }
    }
}

RoundedActivations::Tile RoundedActivations::tile(std::int64_t index, std::int64_t firstRow) const
{
    const std::int64_t at = firstRow * m_blocksPerRow;
    const std::int64_t start = firstRow * m_mostPerRow;
    return {{m_numbers + at * blockWidth, m_blocks + at, m_halves != nullptr ? m_halves + at * 2 : nullptr,
             m_blocksPerRow * blockWidth, m_blocksPerRow,
             m_groups != nullptr ? m_groups + firstGroup(firstRow) : nullptr,
             m_groupHalves != nullptr ? m_groupHalves + firstGroup(firstRow) : nullptr},
            {m_columns + start, m_columnCounts[index], m_counts + firstRow, m_places + start, m_values + start,
             m_mostPerRow}};
}

} // namespace kernels
