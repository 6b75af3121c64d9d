// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cpu/aligned_memory.h"
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/level.h"
#include "kernels/ops.h"
#include "kernels/thread_pool.h"

#include <vector>

namespace kernels {

/// Attention of one CPU backend over the paged cache, with online softmax.
///
/// Keys are taken in tiles of 64 and tiles in splits of 256 by absolute position, every split with a softmax of its
/// own; splits are then blended in order. A row is thus the same sequence of float operations however the prompt was
/// chunked, where blocks lie, how long they are and which threads worked.
/// Source: Dao et al. 2022, arXiv:2205.14135 (tiles, online softmax); Dao et al. 2023, Flash-Decoding (splits).
class Attention {
public:
    Attention(const LevelKernels &level, ThreadPool &pool)
        : m_level(level)
        , m_pool(pool)
    {
    }

    void run(const TensorView &q, const KvLayer &layer, const PagedBatch &batch, const AttentionShape &shape,
             const TensorView &out);

private:
    /// Work of one thread: some query rows of `heads` heads of keys, and splits [firstSplit, lastSplit). With `partial`
    /// each split's result is kept for a second pass, else the rows are finished at once.
    struct Item {
        AttentionRows rows; ///< of the first head
        int heads = 1;
        int firstSplit = 0;
        int lastSplit = 0;
        float *partial = nullptr; ///< [splits, heads], a SoftmaxState each
    };

    /// What one thread needs.
    struct Worker {
        AlignedMemory memory;
        std::vector<AttentionTile> tiles; ///< one for each head
        AttentionAhead ahead;
    };

    void listItems(const AttentionCall &call);
    void shareOut(const AttentionCall &call);
    void attend(const AttentionCall &call, const Item &item, const Item *next, Worker &worker) const;
    void attendSplit(const AttentionCall &call, const Item &item, int split, const Item *next, Worker &worker) const;
    void blendPartials(const AttentionCall &call, const Item &item, Worker &worker) const;

    const LevelKernels &m_level;
    ThreadPool &m_pool;
    std::vector<Worker> m_workers;
    AlignedMemory m_partialMemory;
    std::vector<Item> m_items;
    std::vector<Item> m_work;   ///< what threads take: items, or single splits of them
    std::vector<Item> m_shared; ///< items of which each split is work of its own
};

} // namespace kernels
