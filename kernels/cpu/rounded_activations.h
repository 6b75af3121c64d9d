// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cpu/aligned_memory.h"
#include "kernels/cpu/level.h"
#include "kernels/tensor_view.h"
#include "kernels/thread_pool.h"

#include <span>

namespace kernels {

/// Neighbouring activation rows that meet the same panels together.
struct RowRange {
    std::int64_t first = 0;
    int rows = 0; ///< at most tileRows
};

/// The activations of one matrix product rounded to int8. Of the blocks that would lose most by it, a third of each
/// row's blocks, those of the largest scale, the largest element stays a float, and the others are rounded without it.
/// Everything about a row depends on that row alone.
class RoundedActivations {
public:
    /// The rows of one range as the level kernels take them.
    struct Tile {
        QuantRows rows;
        Outliers outliers;
    };

    /// Rounds x [rows, columns]; columns a multiple of 32. `halves`: also sums of 16. `tiles` hold every row once, in
    /// order.
    void round(const LevelKernels &level, ThreadPool &pool, const TensorView &x, std::span<const RowRange> tiles,
               bool halves);
    /// Tile `index` of the last round(), which starts at row `firstRow`; valid until the next one.
    [[nodiscard]] Tile tile(std::int64_t index, std::int64_t firstRow) const;

private:
    void reserve(std::int64_t rows, std::int64_t tiles, std::int64_t blocks, bool halves, bool grouped, int threads);
    /// `keys` [blocks per row] is scratch.
    void roundRow(const LevelKernels &level, const float *x, std::int64_t row, std::int32_t *keys);
    /// Chooses blocks of a row; returns how many.
    std::int64_t chooseBlocks(std::int64_t row, std::int32_t *keys, std::int32_t *chosen) const;
    void listColumns(const RowRange &range, std::int64_t index, int thread);
    /// Copies whole groups of a tile's rows.
    void group(const RowRange &range);
    void groupBlock(std::int64_t row, std::int64_t block, std::int64_t target);
    /// Where the groups of a tile that starts at `firstRow` begin: no others reach so far.
    [[nodiscard]] std::int64_t firstGroup(std::int64_t firstRow) const { return firstRow / groupRows * m_blocksPerRow; }

    std::int64_t m_blocksPerRow = 0;
    std::int64_t m_mostPerRow = 0; ///< outliers
    AlignedMemory m_numberMemory;
    AlignedMemory m_blockMemory;
    AlignedMemory m_halfMemory;
    AlignedMemory m_groupMemory;
    AlignedMemory m_groupHalfMemory;
    AlignedMemory m_keyMemory;
    AlignedMemory m_seenMemory;
    AlignedMemory m_placeOfMemory;
    AlignedMemory m_countMemory;
    AlignedMemory m_placeMemory;
    AlignedMemory m_valueMemory;
    AlignedMemory m_columnMemory;
    AlignedMemory m_columnCountMemory;
    std::int8_t *m_numbers = nullptr;     ///< [rows, columns]
    BlockRecord *m_blocks = nullptr;      ///< [rows, blocks per row]
    HalfRecord *m_halves = nullptr;       ///< [rows, 2 x blocks per row] or null
    GroupBlock *m_groups = nullptr;       ///< [rows / groupRows, blocks per row] or null
    GroupHalves *m_groupHalves = nullptr; ///< the same
    std::int32_t *m_keys = nullptr;       ///< [threads, blocks per row], scratch
    std::uint64_t *m_seen = nullptr;      ///< [threads, blocks per row], scratch
    std::int32_t *m_placeOf = nullptr;    ///< [threads, columns], scratch
    std::int32_t *m_counts = nullptr;     ///< [rows], outliers of each
    std::int32_t *m_places = nullptr;     ///< [rows, most per row], their columns, then the places of those in the list
    float *m_values = nullptr;            ///< [rows, most per row]
    std::int32_t *m_columns = nullptr;    ///< for each tile a list, where its first row's places begin
    std::int32_t *m_columnCounts = nullptr; ///< [tiles]
};

} // namespace kernels
