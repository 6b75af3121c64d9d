// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/rounded_activations.h"

#include "kernels/checks.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <numeric>

namespace kernels {

namespace {

constexpr int roundRowsPerPart = 8;
constexpr std::int64_t blocksPerTerm = 5; // one block of so many gets a second term
// 254 / scale is a finite float from here on; what smaller blocks lose is nothing next to any other number.
constexpr float smallestScale = 1e-36F;

/// Whole numbers in the order of scale, and of the lower block among equal ones.
std::uint64_t keyOf(float scale, std::int64_t block)
{
    return std::uint64_t{std::bit_cast<std::uint32_t>(scale)} << 32 | (0xffffffffU - static_cast<std::uint32_t>(block));
}

std::int32_t blockOf(std::uint64_t key)
{
    return static_cast<std::int32_t>(0xffffffffU - static_cast<std::uint32_t>(key));
}

} // namespace

void RoundedActivations::Numbers::reserve(std::int64_t count, bool withHalves)
{
    const auto size = static_cast<std::size_t>(count);
    numbers = numberMemory.reserve<std::int8_t>(size * blockWidth);
    blocks = blockMemory.reserve<BlockRecord>(size);
    halves = withHalves ? halfMemory.reserve<HalfRecord>(size * 2) : nullptr;
}

void RoundedActivations::Numbers::copyBlock(const Numbers &from, std::int64_t source, std::int64_t target)
{
    std::memcpy(numbers + target * blockWidth, from.numbers + source * blockWidth, blockWidth);
    blocks[target] = from.blocks[source];
    if (halves != nullptr)
        std::copy_n(from.halves + source * 2, 2, halves + target * 2);
}

void RoundedActivations::reserve(std::int64_t rows, std::int64_t tiles, std::int64_t blocks, bool halves, int threads)
{
    m_blocksPerRow = blocks;
    m_termsPerRow = std::max<std::int64_t>(1, (blocks + blocksPerTerm / 2) / blocksPerTerm);
    m_first.reserve(rows * blocks, halves);
    m_byRow.reserve(rows * m_termsPerRow, halves);
    m_second.reserve(rows * m_termsPerRow, halves);
    const auto terms = static_cast<std::size_t>(rows * m_termsPerRow);
    m_chosen = m_chosenMemory.reserve<std::int32_t>(terms);
    m_tileRows = m_tileRowMemory.reserve<std::uint8_t>(terms);
    m_termBlocks = m_termBlockMemory.reserve<std::int32_t>(terms);
    m_keys = m_keyMemory.reserve<std::uint64_t>(static_cast<std::size_t>(threads * blocks));
    m_places = m_placeMemory.reserve<std::int32_t>(static_cast<std::size_t>(tiles * (blocks + 1)));
    m_starts = m_startMemory.reserve<std::int32_t>(static_cast<std::size_t>(tiles * (blocks + 1)));
}

void RoundedActivations::round(const LevelKernels &level, ThreadPool &pool, const TensorView &x,
                               std::span<const RowRange> tiles, bool halves)
{
    const std::int64_t rows = x.shape[0];
    reserve(rows, std::ssize(tiles), x.shape[1] / blockWidth, halves, pool.threads());
    const auto parts = static_cast<int>((rows + roundRowsPerPart - 1) / roundRowsPerPart);
    pool.run(parts, [&](int part, int thread) {
        const std::int64_t first = static_cast<std::int64_t>(part) * roundRowsPerPart;
        for (std::int64_t row = first; row < std::min(rows, first + roundRowsPerPart); ++row)
            roundRow(level, rowOf(x, row), row, m_keys + thread * m_blocksPerRow);
    });
    pool.run(static_cast<int>(tiles.size()),
             [&](int part, int) { collectTerms(tiles[static_cast<std::size_t>(part)], part); });
}

void RoundedActivations::roundRow(const LevelKernels &level, const float *x, std::int64_t row, std::uint64_t *keys)
{
    const std::int64_t at = row * m_blocksPerRow;
    level.quantizeRow(x, static_cast<int>(m_blocksPerRow * blockWidth), m_first.numbers + at * blockWidth,
                      m_first.blocks + at, m_first.halvesOf(at));
    chooseBlocks(row, keys);
    for (std::int64_t to = row * m_termsPerRow; to < (row + 1) * m_termsPerRow; ++to) {
        const std::int64_t block = m_chosen[to];
        if (block == m_blocksPerRow)
            break;
        level.roundRemainder(x + block * blockWidth, m_first.numbers + (at + block) * blockWidth,
                             m_first.blocks[at + block].scale, m_byRow.numbers + to * blockWidth, m_byRow.blocks[to],
                             m_byRow.halvesOf(to));
    }
}

void RoundedActivations::chooseBlocks(std::int64_t row, std::uint64_t *keys)
{
    const BlockRecord *records = m_first.blocks + row * m_blocksPerRow;
    std::uint64_t *last = keys;
    for (std::int64_t block = 0; block < m_blocksPerRow; ++block) {
        if (records[block].scale >= smallestScale) // not NaN either
            *last++ = keyOf(records[block].scale, block);
    }
    if (last - keys > m_termsPerRow) {
        std::nth_element(keys, keys + m_termsPerRow, last, std::greater{});
        last = keys + m_termsPerRow;
    }
    std::int32_t *chosen = m_chosen + row * m_termsPerRow;
    std::int32_t *end = std::transform(keys, last, chosen, blockOf);
    std::sort(chosen, end);
    std::fill(end, chosen + m_termsPerRow, static_cast<std::int32_t>(m_blocksPerRow));
}

/// Orders the second terms of a tile by block, then row.
void RoundedActivations::collectTerms(const RowRange &range, std::int64_t index)
{
    const std::int64_t firstTerm = range.first * m_termsPerRow;
    const std::int32_t *chosen = m_chosen + firstTerm;
    std::int32_t *places = m_places + index * (m_blocksPerRow + 1);
    std::fill_n(places, m_blocksPerRow + 1, 0);
    for (std::int64_t i = 0; i < range.rows * m_termsPerRow; ++i)
        ++places[chosen[i]];
    std::exclusive_scan(places, places + m_blocksPerRow + 1, places, 0);
    std::copy_n(places, m_blocksPerRow + 1, m_starts + index * (m_blocksPerRow + 1));
    for (std::int64_t i = 0; i < range.rows * m_termsPerRow; ++i) {
        const std::int32_t block = chosen[i];
        if (block == m_blocksPerRow) // fewer terms than there is room for
            continue;
        const std::int64_t to = firstTerm + places[block]++;
        m_tileRows[to] = static_cast<std::uint8_t>(i / m_termsPerRow);
        m_termBlocks[to] = block;
        m_second.copyBlock(m_byRow, firstTerm + i, to);
    }
}

RoundedActivations::Tile RoundedActivations::tile(std::int64_t index, std::int64_t firstRow) const
{
    const auto rowsAt = [](const Numbers &from, std::int64_t at, std::int64_t blocksPerRow) {
        return QuantRows{from.numbers + at * blockWidth, from.blocks + at,
                         from.halves != nullptr ? from.halves + at * 2 : nullptr, blocksPerRow * blockWidth,
                         blocksPerRow};
    };
    const std::int64_t terms = firstRow * m_termsPerRow;
    return {rowsAt(m_first, firstRow * m_blocksPerRow, m_blocksPerRow),
            {rowsAt(m_second, terms, 1), m_starts + index * (m_blocksPerRow + 1), m_tileRows + terms,
             m_termBlocks + terms}};
}

} // namespace kernels
