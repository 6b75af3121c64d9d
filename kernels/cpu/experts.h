// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cpu/aligned_memory.h"
#include "kernels/cpu/matmul.h"

#include <span>
#include <vector>

namespace kernels {

/// Feed-forward experts of one CPU backend: rows are sorted by expert, and some thousand of them at a time become the
/// tiles of one product, so that a step with few tokens is one job for all threads and memory stays bounded.
class Experts {
public:
    /// Whose rows go where. Row i of [tokens * k, ..] belongs to token i / k and expert ids[i].
    struct Call {
        std::span<const PackedWeight *const> weights; ///< [experts]
        std::span<const float *const> bias;           ///< [experts] or empty
        TensorView ids;                               ///< [tokens, k], I32
    };

    Experts(const LevelKernels &level, ThreadPool &pool, Matmul &matmul)
        : m_level(level)
        , m_pool(pool)
        , m_matmul(matmul)
    {
    }

    /// out[i] = act(x gateᵀ) x (x upᵀ) of row i's token and expert. out [tokens * k, inner]
    void gated(const Call &call, Activation activation, const TensorView &x, const TensorView &out);
    /// inout[token] += weight x product, by ascending expert. inner [tokens * k, inner], weights [tokens, k]
    void combine(const Call &call, const TensorView &inner, const TensorView &weights, const TensorView &inout);

    /// Head h of out = head h of x times weights[h]ᵀ: every head is an expert that all tokens take.
    void heads(std::span<const PackedWeight *const> weights, const TensorView &x, const TensorView &out);

private:
    void sortRows(const Call &call);
    /// Calls body(rows, tiles) for some sorted rows after the others; tiles count from the first of them.
    template<typename Body> void overWaves(const Call &call, Body body);
    /// Rows rows[i] / rowsPerToken of x [rows, n] or [tokens, heads, n], one after the other.
    TensorView gather(const TensorView &x, std::span<const std::int64_t> rows, std::int64_t rowsPerToken);

    const LevelKernels &m_level;
    ThreadPool &m_pool;
    Matmul &m_matmul;
    std::vector<std::int64_t> m_rows;   ///< [tokens * k], by expert, then by number
    std::vector<std::int64_t> m_starts; ///< [experts + 1] in m_rows
    std::vector<std::int64_t> m_next;   ///< [experts + 1], the next of each expert's rows while they are sorted
    std::vector<WeightTile> m_tiles;    ///< of the wave in hand
    std::vector<std::int32_t> m_heads;  ///< [tokens, heads]
    AlignedMemory m_gathered;
    AlignedMemory m_products;
};

} // namespace kernels
