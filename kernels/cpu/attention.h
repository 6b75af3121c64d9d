// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cpu/aligned_memory.h"
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
    const LevelKernels &m_level;
    ThreadPool &m_pool;
    std::vector<AlignedMemory> m_workers;
    AlignedMemory m_partialMemory;
};

} // namespace kernels
