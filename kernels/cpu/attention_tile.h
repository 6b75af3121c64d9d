// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cpu/aligned_memory.h"
#include "kernels/cpu/level.h"
#include "kernels/ops.h"

namespace kernels {

constexpr int keyTile = kvTileKeys; ///< keys of one tile
constexpr int splitKeys = 256;      ///< keys of one split, by absolute position

/// What one call of attention is about.
struct AttentionCall {
    const LevelKernels &level;
    TensorView q;
    KvLayer layer;
    PagedBatch batch;
    AttentionShape shape;
    TensorView out;

    [[nodiscard]] int groupHeads() const { return shape.heads / shape.kvHeads; } ///< query heads of one key head
    [[nodiscard]] int valueDim() const { return shape.valueDim > 0 ? shape.valueDim : shape.headDim; }
    /// Floats of one row of weighted values.
    [[nodiscard]] int valueStride() const { return (valueDim() + panelRows - 1) / panelRows * panelRows; }
    /// Floats of one stored row of values as a tile holds it, of which the first valueDim count.
    [[nodiscard]] int storedStride() const { return (shape.headDim + panelRows - 1) / panelRows * panelRows; }
    /// Absolute position of token `token` of the step, which belongs to `sequence`.
    [[nodiscard]] int position(int sequence, int token) const;
    /// First key that a query at `position` sees.
    [[nodiscard]] int firstKey(int position) const;
};

/// How a level reads a stored type.
[[nodiscard]] KvValues kvValuesOf(DType type);

/// Query rows that share keys: `tokens` tokens of one sequence, all query heads of one key head. Row r is token
/// r / groupHeads, head r % groupHeads.
struct AttentionRows {
    int sequence = 0;
    int kvHead = 0;
    int firstToken = 0;
    int tokens = 0;
};

/// The keys of one split that some rows see.
struct AttentionSplit {
    AttentionRows rows;
    int split = 0;
};

/// Running softmax of some rows: weighted values [rows, valueStride], largest score and sum of weights, [rows] each.
struct SoftmaxState {
    float *values;
    float *largest;
    float *sums; ///< negative while a row has seen no key

    /// Floats that `rows` rows take.
    [[nodiscard]] static std::size_t floats(int rows, int valueStride);
    [[nodiscard]] static SoftmaxState at(float *memory, int rows, int valueStride);
    void clear(int rows, int valueStride) const;
};

/// One thread's tile of queries and keys. Few rows read stored keys and values as they lie; for many a tile of keys and
/// one of values are widened to float first. The operations on a row are the same either way.
class AttentionTile {
public:
    AttentionTile(const AttentionCall &call, const AttentionRows &rows, AlignedMemory &memory);

    /// Attention of the rows to the keys of one split, into `state`, which is cleared first. `next`, unless null, is
    /// what this thread will probably do then: its first keys and values are fetched.
    void attendSplit(int split, const SoftmaxState &state, const AttentionSplit *next);
    /// Blends a split's result into `total`.
    void blend(const SoftmaxState &split, const SoftmaxState &total) const;
    /// Divides by the sums (sinks included) and writes the rows out.
    void finish(const SoftmaxState &total) const;

    [[nodiscard]] int rows() const { return m_rows.tokens * m_call.groupHeads(); }
    [[nodiscard]] SoftmaxState splitState() const { return m_split; }
    [[nodiscard]] SoftmaxState totalState() const { return m_total; }

private:
    /// Keys [begin, end) of a tile that a token sees.
    struct Seen {
        int begin;
        int end;
    };

    struct KeyRange {
        int begin;
        int end;
    };

    void loadQueries();
    /// Keys (side 0) or values (side 1) of positions from `firstKey` on.
    [[nodiscard]] KvTile storedTile(const AttentionRows &rows, int side, int firstKey, int keys) const;
    [[nodiscard]] KeyRange keysOf(const AttentionRows &rows, int split) const;
    /// Has the first tile of a range fetched while the next one is worked on.
    void lookAhead(const AttentionRows &rows, const KeyRange &range);
    void scoreTile(int firstKey, int keys);
    void weighTile(int firstKey, int keys, const SoftmaxState &state);
    void weighRow(int row, const Seen &seen, int keys, const SoftmaxState &state);
    void sumValues(int firstKey, int keys, const SoftmaxState &state);
    [[nodiscard]] Seen seenBy(int token, int firstKey, int keys) const;

    const AttentionCall &m_call;
    AttentionRows m_rows;
    int m_dim;
    int m_valueStride;
    int m_storedStride;
    bool m_directKeys; ///< without widening
    bool m_directValues;
    KvTile m_ahead[2]{}; ///< keys and values to fetch
    float *m_queries;    ///< [rows, dim], scaled
    float *m_scores;     ///< [rows, keyTile]
    float *m_keys;       ///< [dim rounded up to 8, keyTile]
    float *m_values;     ///< [keyTile, storedStride]
    SoftmaxState m_split{};
    SoftmaxState m_total{};
};

} // namespace kernels
