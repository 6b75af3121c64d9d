// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cpu/level.h"
#include "kernels/ops.h"

#include <vector>

namespace kernels {

constexpr int keyTile = kvTileKeys; ///< keys of one tile
constexpr int splitKeys = 256;      ///< keys of one split, by absolute position

/// Where rows of a layer lie, worked out once for a call: tiles ask for many.
class KvAddresses {
public:
    explicit KvAddresses(const KvLayer &layer);

    /// The row of a head at position `token` of the block; keys are side 0, values side 1.
    [[nodiscard]] const std::byte *row(int side, int block, int head, int token) const
    {
        const Side &of = m_sides[side];
        return of.first + static_cast<std::size_t>(block) * m_blockStride
            + static_cast<std::size_t>(head) * of.headBytes + static_cast<std::size_t>(token) * of.rowBytes;
    }
    [[nodiscard]] std::int64_t rowBytes(int side) const { return static_cast<std::int64_t>(m_sides[side].rowBytes); }
    [[nodiscard]] KvValues values(int side) const { return m_sides[side].values; }

private:
    struct Side {
        const std::byte *first = nullptr;
        std::size_t headBytes = 0;
        std::size_t rowBytes = 0;
        KvValues values = KvValues::Float;
    };

    Side m_sides[2];
    std::size_t m_blockStride;
};

/// What one call of attention is about.
struct AttentionCall {
    const LevelKernels &level;
    TensorView q;
    KvLayer layer;
    PagedBatch batch;
    AttentionShape shape;
    TensorView out;
    KvAddresses stored;
    unsigned blockShift; ///< of a position to its block's place in the table

    AttentionCall(const LevelKernels &kernels, const TensorView &queries, const KvLayer &keysAndValues,
                  const PagedBatch &paged, const AttentionShape &heads, const TensorView &target);

    /// The stored key (side 0) or value (side 1) of a head at a position.
    [[nodiscard]] const std::byte *storedRow(int sequence, int head, int side, int key) const
    {
        const std::size_t place = static_cast<std::size_t>(sequence) * static_cast<std::size_t>(batch.maxBlocks)
            + (static_cast<std::size_t>(key) >> blockShift);
        const int listed = batch.blockTables[place];
        const int block = listed >= 0 && listed < layer.blocks ? listed : 0; // before the window, never counted
        return stored.row(side, block, head, key & (layer.blockTokens - 1));
    }

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

/// Keys [begin, end) by absolute position.
struct KeyRange {
    int begin = 0;
    int end = 0;
};

/// The keys of one split that some rows see, from the first tile that one of them sees.
[[nodiscard]] KeyRange keysOf(const AttentionCall &call, const AttentionRows &rows, int split);

/// Stored keys and values that will be needed soon, in the order in which they lie in memory: 8 positions of one head
/// each, keys and values of some heads.
class AttentionAhead {
public:
    /// Those of the first tile of a range, of `heads` heads from the rows' own on.
    void list(const AttentionCall &call, const AttentionRows &rows, int heads, const KeyRange &range);
    void clear() { m_groups.clear(); }
    /// Makes room for tiles of so many heads.
    void reserve(int heads) { m_groups.reserve(static_cast<std::size_t>(2 * heads * (keyTile / kvGroupKeys))); }
    /// What is fetched while the `call`-th tile of keys or values is worked on.
    [[nodiscard]] KvTile part(int call) const;

private:
    std::vector<const void *> m_groups;
    std::int64_t m_rowBytes = 0;
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
    /// Floats of memory that a tile of so many rows takes.
    [[nodiscard]] static std::size_t floats(const AttentionCall &call, const AttentionRows &rows);
    AttentionTile(const AttentionCall &call, const AttentionRows &rows, float *memory);

    /// Attention of the rows to the first tile of keys of a range, added to `state`. Meanwhile keys and values that are
    /// needed next are fetched, if the rows read stored ones.
    void attendKeys(const KeyRange &range, const SoftmaxState &state, const KvTile &keysAhead,
                    const KvTile &valuesAhead);
    /// Blends a split's result into `total`.
    void blend(const SoftmaxState &split, const SoftmaxState &total) const;
    /// Divides by the sums (sinks included) and writes the rows out.
    void finish(const SoftmaxState &total) const;

    /// From now on the split's state is at `memory`.
    void keepSplitAt(float *memory) { m_split = SoftmaxState::at(memory, rows(), m_valueStride); }
    /// Whether stored keys or values are read as they lie.
    [[nodiscard]] bool readsStored() const { return m_directKeys || m_directValues; }
    [[nodiscard]] int rows() const { return m_rows.tokens * m_call.groupHeads(); }
    [[nodiscard]] SoftmaxState splitState() const { return m_split; }
    [[nodiscard]] SoftmaxState totalState() const { return m_total; }

private:
    /// Keys [begin, end) of a tile that a token sees.
    struct Seen {
        int begin;
        int end;
    };

    void loadQueries();
    /// Keys (side 0) or values (side 1) of positions from `firstKey` on.
    [[nodiscard]] KvTile storedTile(int side, int firstKey, int keys) const;
    void scoreTile(int firstKey, int keys, const KvTile &ahead);
    void weighTile(int firstKey, int keys, const SoftmaxState &state);
    void weighRow(int row, const Seen &seen, int keys, const SoftmaxState &state);
    void sumValues(int firstKey, int keys, const SoftmaxState &state, const KvTile &ahead);
    [[nodiscard]] Seen seenBy(int token, int firstKey, int keys) const;

    const AttentionCall &m_call;
    AttentionRows m_rows;
    int m_dim;
    int m_valueStride;
    int m_storedStride;
    bool m_directKeys; ///< without widening
    bool m_directValues;
    float *m_queries; ///< [rows, dim], scaled
    float *m_scores;  ///< [rows, keyTile]
    float *m_keys;    ///< [dim rounded up to 8, keyTile]; none when stored ones are read
    float *m_values;  ///< [keyTile, storedStride]; none when stored ones are read
    SoftmaxState m_split{};
    SoftmaxState m_total{};
};

} // namespace kernels
