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

/// The activations of one matrix product rounded to int8, with second terms for the blocks that lose most by it: a
/// fifth of each row's blocks, those of the largest scale. Everything about a row depends on that row alone.
class RoundedActivations {
public:
    /// The rows of one range as the level kernels take them.
    struct Tile {
        QuantRows rows;
        SecondTerms second;
    };

    /// Rounds x [rows, columns]; columns a multiple of 32. `halves`: also sums of 16. `tiles` hold every row once, in
    /// order.
    void round(const LevelKernels &level, ThreadPool &pool, const TensorView &x, std::span<const RowRange> tiles,
               bool halves);
    /// Tile `index` of the last round(), which starts at row `firstRow`; valid until the next one.
    [[nodiscard]] Tile tile(std::int64_t index, std::int64_t firstRow) const;

private:
    void reserve(std::int64_t rows, std::int64_t tiles, std::int64_t blocks, bool halves, int threads);
    /// `keys` [blocks per row] is scratch.
    void roundRow(const LevelKernels &level, const float *x, std::int64_t row, std::uint64_t *keys);
    void chooseBlocks(std::int64_t row, std::uint64_t *keys);
    void collectTerms(const RowRange &range, std::int64_t index);

    /// Numbers with what stands next to them.
    struct Numbers {
        void reserve(std::int64_t blocks, bool withHalves);
        void copyBlock(const Numbers &from, std::int64_t source, std::int64_t target);
        [[nodiscard]] HalfRecord *halvesOf(std::int64_t block)
        {
            return halves != nullptr ? halves + block * 2 : nullptr;
        }

        AlignedMemory numberMemory;
        AlignedMemory blockMemory;
        AlignedMemory halfMemory;
        std::int8_t *numbers = nullptr; ///< [blocks, 32]
        BlockRecord *blocks = nullptr;  ///< [blocks]
        HalfRecord *halves = nullptr;   ///< [blocks, 2] or null
    };

    std::int64_t m_blocksPerRow = 0;
    std::int64_t m_termsPerRow = 0;
    Numbers m_first;  ///< [rows, blocks per row]
    Numbers m_byRow;  ///< second terms [rows, terms per row]
    Numbers m_second; ///< the same, for each tile of rows [rows of the tile x terms per row], grouped by block
    AlignedMemory m_keyMemory;
    AlignedMemory m_placeMemory;
    AlignedMemory m_chosenMemory;
    AlignedMemory m_startMemory;
    AlignedMemory m_tileRowMemory;
    AlignedMemory m_termBlockMemory;
    std::uint64_t *m_keys = nullptr;      ///< [threads, blocks per row]
    std::int32_t *m_places = nullptr;     ///< [tiles, blocks per row + 1], where the next term of a block goes
    std::int32_t *m_chosen = nullptr;     ///< [rows, terms per row], ascending; the number of blocks after the last one
    std::int32_t *m_starts = nullptr;     ///< [tiles, blocks per row + 1]
    std::uint8_t *m_tileRows = nullptr;   ///< as the second terms
    std::int32_t *m_termBlocks = nullptr; ///< as the second terms
};

} // namespace kernels
