// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/padded_step.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace engine {

namespace {

constexpr int leastBlocks = 16; // shorter tables are no faster

/// Whether every sequence has one token, whose logits are wanted.
bool isDecode(const ForwardBatch &batch)
{
    const std::size_t rows = batch.contextLengths.size();
    if (rows == 0 || batch.tokenIds.size() != rows || batch.logitRows.size() != rows)
        return false;
    for (std::size_t i = 0; i < rows; ++i)
        if (batch.queryStarts[i] != static_cast<int>(i) || batch.logitRows[i] != static_cast<int>(i))
            return false;
    return true;
}

/// Rows of `from` into the wider rows of `to`.
void copyTables(const std::vector<int> &from, int width, std::vector<int> &to, int wider)
{
    auto target = to.begin();
    for (auto row = from.begin(); row != from.end(); row += width, target += wider)
        std::copy_n(row, width, target);
}

} // namespace

int PaddedStep::rowsFor(int rows, int most)
{
    constexpr int step = 8;
    const int padded =
        rows < step ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(rows))) : (rows + step - 1) / step * step;
    return std::min(padded, most);
}

int PaddedStep::blocksFor(int blocks)
{
    return static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::max(blocks, leastBlocks))));
}

std::size_t PaddedStep::tableBytes(const kernels::StepShape &shape, bool windowed)
{
    return static_cast<std::size_t>(shape.rows) * static_cast<std::size_t>(shape.maxBlocks) * sizeof(int)
        * (windowed ? 2 : 1);
}

void PaddedStep::clear(const kernels::StepShape &shape, bool windowed)
{
    m_shape = shape;
    const auto rows = static_cast<std::size_t>(shape.rows);
    const std::size_t cells = rows * static_cast<std::size_t>(shape.maxBlocks);
    m_forward.tokenIds.assign(rows, 0);
    m_forward.positions.assign(rows, 0);
    m_forward.slotIds.assign(rows, -1);
    m_forward.contextLengths.assign(rows, 0);
    m_forward.blockTables.assign(cells, 0);
    m_forward.maxBlocks = shape.maxBlocks;
    m_forward.windowSlotIds.assign(windowed ? rows : 0, -1);
    m_forward.windowTables.assign(windowed ? cells : 0, -1);
    m_forward.queryStarts.resize(rows + 1);
    std::iota(m_forward.queryStarts.begin(), m_forward.queryStarts.end(), 0);
    m_forward.logitRows.resize(rows);
    std::iota(m_forward.logitRows.begin(), m_forward.logitRows.end(), 0);
    m_forward.ropeVariants.assign(shape.variant != 0 ? rows : 0, shape.variant);
    listInputs();
}

void PaddedStep::listInputs()
{
    m_inputs = {std::as_bytes(std::span(m_forward.tokenIds)),       std::as_bytes(std::span(m_forward.positions)),
                std::as_bytes(std::span(m_forward.slotIds)),        std::as_bytes(std::span(m_forward.queryStarts)),
                std::as_bytes(std::span(m_forward.contextLengths)), std::as_bytes(std::span(m_forward.blockTables)),
                std::as_bytes(std::span(m_forward.windowSlotIds)),  std::as_bytes(std::span(m_forward.windowTables)),
                std::as_bytes(std::span(m_forward.logitRows))};
}

bool PaddedStep::fill(const ForwardBatch &batch, int mostRows, const RopeVariants &variants)
{
    if (!isDecode(batch))
        return false;
    const int variant = batch.ropeVariants.empty() ? 0 : batch.ropeVariants[0];
    if (std::ranges::any_of(batch.ropeVariants, [variant](int other) { return other != variant; })
        || (variant != 0 && variants.perLength))
        return false;
    const auto rows = batch.contextLengths.size();
    const kernels::StepShape shape{rowsFor(static_cast<int>(rows), mostRows), blocksFor(batch.maxBlocks), variant};
    const bool windowed = !batch.windowTables.empty();
    if (static_cast<std::size_t>(shape.rows) < rows || tableBytes(shape, windowed) > mostBytes)
        return false;
    clear(shape, windowed);
    std::ranges::copy(batch.tokenIds, m_forward.tokenIds.begin());
    std::ranges::copy(batch.positions, m_forward.positions.begin());
    std::ranges::copy(batch.slotIds, m_forward.slotIds.begin());
    std::ranges::copy(batch.contextLengths, m_forward.contextLengths.begin());
    copyTables(batch.blockTables, batch.maxBlocks, m_forward.blockTables, shape.maxBlocks);
    if (windowed) {
        std::ranges::copy(batch.windowSlotIds, m_forward.windowSlotIds.begin());
        copyTables(batch.windowTables, batch.maxBlocks, m_forward.windowTables, shape.maxBlocks);
    }
    return true;
}

void PaddedStep::fillLargest(int rows, int maxBlocks, bool windowed)
{
    kernels::StepShape shape{rows, blocksFor(maxBlocks), 0};
    while (tableBytes(shape, windowed) > mostBytes && shape.maxBlocks > leastBlocks)
        shape.maxBlocks /= 2;
    clear(shape, windowed);
}

} // namespace engine
