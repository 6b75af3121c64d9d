// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/attention_tile.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kernels {

namespace {

constexpr float minusInfinity = -std::numeric_limits<float>::infinity();

int roundUp(int value, int unit)
{
    return (value + unit - 1) / unit * unit;
}

bool readsDirectly(const AttentionCall &call, int rows)
{
    return rows <= directRows && call.shape.headDim % panelRows == 0;
}

} // namespace

KvValues kvValuesOf(DType type)
{
    switch (type) {
    case DType::F16:
        return KvValues::Half;
    case DType::BF16:
        return KvValues::Brain;
    case DType::Q8_0:
        return KvValues::Quant8;
    case DType::E4M3:
        return KvValues::E4m3;
    default:
        return KvValues::Float;
    }
}

int AttentionCall::position(int sequence, int token) const
{
    const auto s = static_cast<std::size_t>(sequence);
    return batch.contextLengths[s] - (batch.queryStarts[s + 1] - token);
}

int AttentionCall::firstKey(int position) const
{
    return shape.window > 0 ? std::max(0, position - shape.window + 1) : 0;
}

std::size_t SoftmaxState::floats(int rows, int valueStride)
{
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(valueStride)
        + 2 * static_cast<std::size_t>(roundUp(rows, panelRows));
}

SoftmaxState SoftmaxState::at(float *memory, int rows, int valueStride)
{
    float *largest = memory + static_cast<std::size_t>(rows) * static_cast<std::size_t>(valueStride);
    return {memory, largest, largest + roundUp(rows, panelRows)};
}

void SoftmaxState::clear(int rows, int valueStride) const
{
    std::fill(values, values + static_cast<std::size_t>(rows) * static_cast<std::size_t>(valueStride), 0.0F);
    std::fill(largest, largest + rows, minusInfinity);
    std::fill(sums, sums + rows, -1.0F);
}

AttentionTile::AttentionTile(const AttentionCall &call, const AttentionRows &rows, AlignedMemory &memory)
    : m_call(call)
    , m_rows(rows)
    , m_dim(call.shape.headDim)
    , m_valueStride(call.valueStride())
    , m_storedStride(call.storedStride())
    , m_directKeys(readsDirectly(call, this->rows()) && call.level.scoreKeys != nullptr
                   && call.layer.keyType != DType::F32)
    , m_directValues(readsDirectly(call, this->rows()) && call.level.sumValues != nullptr)
{
    const auto count = static_cast<std::size_t>(this->rows());
    const std::size_t stateFloats = SoftmaxState::floats(this->rows(), m_valueStride);
    const auto keyFloats = static_cast<std::size_t>(roundUp(m_dim, kvGroupKeys) * keyTile);
    const auto valueFloats = static_cast<std::size_t>(m_storedStride * keyTile);
    const std::size_t queryFloats = count * static_cast<std::size_t>(m_dim);
    m_keys = memory.reserve<float>(keyFloats + valueFloats + count * keyTile + 2 * stateFloats + queryFloats);
    m_values = m_keys + keyFloats;
    m_scores = m_values + valueFloats;
    m_split = SoftmaxState::at(m_scores + count * keyTile, this->rows(), m_valueStride);
    m_total = SoftmaxState::at(m_scores + count * keyTile + stateFloats, this->rows(), m_valueStride);
    m_queries = m_scores + count * keyTile + 2 * stateFloats;
    loadQueries();
}

void AttentionTile::loadQueries()
{
    const int group = m_call.groupHeads();
    for (int r = 0; r < rows(); ++r) {
        const std::int64_t token = m_rows.firstToken + r / group;
        const std::int64_t head = m_rows.kvHead * group + r % group;
        const float *query = m_call.q.as<float>() + token * m_call.q.strides[0] + head * m_call.q.strides[1];
        for (int i = 0; i < m_dim; ++i)
            m_queries[r * m_dim + i] = query[i] * m_call.shape.scale;
    }
}

KvTile AttentionTile::storedTile(const AttentionRows &rows, int side, int firstKey, int keys) const
{
    const KvLayer &layer = m_call.layer;
    const DType type = side == 0 ? layer.keyType : layer.valueType;
    KvTile tile{};
    tile.rowBytes = static_cast<std::int64_t>(kvRowBytes(type, layer.headDim));
    tile.values = kvValuesOf(type);
    const int *table = m_call.batch.blockTables.data()
        + static_cast<std::size_t>(rows.sequence) * static_cast<std::size_t>(m_call.batch.maxBlocks);
    for (int g = 0; g * kvGroupKeys < keys; ++g) {
        const int key = firstKey + g * kvGroupKeys;
        const int listed = table[key / layer.blockTokens];
        const int block = listed >= 0 && listed < layer.blocks ? listed : 0; // before the window, never counted
        const std::byte *first = side == 0 ? layer.keys(block, rows.kvHead) : layer.values(block, rows.kvHead);
        tile.groups[g] = first + key % layer.blockTokens * tile.rowBytes;
    }
    return tile;
}

void AttentionTile::scoreTile(int firstKey, int keys)
{
    const KvTile tile = storedTile(m_rows, 0, firstKey, keys);
    const int groups = roundUp(keys, kvGroupKeys) / kvGroupKeys;
    if (m_directKeys) {
        m_call.level.scoreKeys(tile, m_ahead[0], groups, m_dim, m_queries, rows(), m_scores);
        return;
    }
    m_call.level.loadKeys(tile, groups, m_dim, m_keys);
    for (int c = 0; c < keys; c += panelRows)
        m_call.level.outerProducts(m_keys + c, keyTile, m_dim, m_queries, m_dim, rows(), m_scores + c, keyTile, false);
}

AttentionTile::Seen AttentionTile::seenBy(int token, int firstKey, int keys) const
{
    const int position = m_call.position(m_rows.sequence, m_rows.firstToken + token);
    return {std::max(0, m_call.firstKey(position) - firstKey), std::min(keys, position + 1 - firstKey)};
}

void AttentionTile::weighRow(int row, const Seen &seen, int keys, const SoftmaxState &state)
{
    const LevelKernels &level = m_call.level;
    float *scores = m_scores + row * keyTile;
    const int width = roundUp(keys, panelRows);
    if (m_call.shape.softCap > 0.0F)
        level.softCap(scores, m_call.shape.softCap, width);
    std::fill(scores, scores + seen.begin, minusInfinity);
    std::fill(scores + seen.end, scores + width, minusInfinity);
    const float before = state.largest[row];
    const float largest = std::max(before, level.largest(scores, width));
    const float sum = level.exponentials(scores, largest, width);
    if (state.sums[row] < 0.0F) {
        state.sums[row] = sum;
    } else if (before == largest) {
        state.sums[row] += sum;
    } else {
        const float factor = std::exp(before - largest);
        state.sums[row] = state.sums[row] * factor + sum;
        level.scaleRow(state.values + static_cast<std::int64_t>(row) * m_valueStride, factor, m_valueStride);
    }
    state.largest[row] = largest;
}

void AttentionTile::weighTile(int firstKey, int keys, const SoftmaxState &state)
{
    const int group = m_call.groupHeads();
    for (int token = 0; token < m_rows.tokens; ++token) {
        const Seen seen = seenBy(token, firstKey, keys);
        for (int h = 0; h < group && seen.begin < seen.end; ++h)
            weighRow(token * group + h, seen, keys, state);
    }
}

void AttentionTile::sumValues(int firstKey, int keys, const SoftmaxState &state)
{
    const int group = m_call.groupHeads();
    const KvTile tile = storedTile(m_rows, 1, firstKey, keys);
    if (!m_directValues)
        m_call.level.loadValues(tile, keys, m_dim, m_values, m_storedStride);
    for (int token = 0; token < m_rows.tokens;) {
        const Seen seen = seenBy(token, firstKey, keys);
        int last = token + 1;
        for (; last < m_rows.tokens; ++last) { // tokens that see the same keys are summed together
            const Seen other = seenBy(last, firstKey, keys);
            if (other.begin != seen.begin || other.end != seen.end)
                break;
        }
        // Keys outside are left out, not multiplied by zero: they may hold anything.
        const float *weights = m_scores + token * group * keyTile;
        float *sums = state.values + static_cast<std::int64_t>(token) * group * m_valueStride;
        if (m_directValues && seen.begin < seen.end)
            m_call.level.sumValues(tile, m_ahead[1], seen.begin, seen.end, weights, (last - token) * group, sums,
                                   m_valueStride);
        for (int c = 0; c < m_valueStride && seen.begin < seen.end && !m_directValues; c += panelRows)
            m_call.level.outerProducts(m_values + seen.begin * m_storedStride + c, m_storedStride,
                                       seen.end - seen.begin, weights + seen.begin, keyTile, (last - token) * group,
                                       sums + c, m_valueStride, true);
        token = last;
    }
}

AttentionTile::KeyRange AttentionTile::keysOf(const AttentionRows &rows, int split) const
{
    const int needed = m_call.firstKey(m_call.position(rows.sequence, rows.firstToken));
    const int end = m_call.position(rows.sequence, rows.firstToken + rows.tokens - 1) + 1;
    return {std::max(split * splitKeys, needed / keyTile * keyTile), std::min(end, (split + 1) * splitKeys)};
}

void AttentionTile::lookAhead(const AttentionRows &rows, const KeyRange &range)
{
    const int keys = std::min(keyTile, range.end - range.begin);
    m_ahead[0] = m_directKeys ? storedTile(rows, 0, range.begin, keys) : KvTile{};
    m_ahead[1] = m_directValues ? storedTile(rows, 1, range.begin, keys) : KvTile{};
}

void AttentionTile::attendSplit(int split, const SoftmaxState &state, const AttentionSplit *next)
{
    state.clear(rows(), m_valueStride);
    const KeyRange range = keysOf(m_rows, split);
    for (int key = range.begin; key < range.end; key += keyTile) {
        const int keys = std::min(keyTile, range.end - key);
        if (key + keys < range.end)
            lookAhead(m_rows, {key + keys, range.end});
        else if (next != nullptr)
            lookAhead(next->rows, keysOf(next->rows, next->split));
        else
            lookAhead(m_rows, {0, 0});
        scoreTile(key, keys);
        weighTile(key, keys, state);
        sumValues(key, keys, state);
    }
}

void AttentionTile::blend(const SoftmaxState &split, const SoftmaxState &total) const
{
    for (int r = 0; r < rows(); ++r) {
        if (split.sums[r] < 0.0F) // no key of the split is seen; a NaN is not below zero
            continue;
        float *values = total.values + static_cast<std::int64_t>(r) * m_valueStride;
        const float *others = split.values + static_cast<std::int64_t>(r) * m_valueStride;
        if (total.sums[r] < 0.0F) {
            std::copy(others, others + m_valueStride, values);
            total.sums[r] = split.sums[r];
            total.largest[r] = split.largest[r];
            continue;
        }
        const float largest = std::max(total.largest[r], split.largest[r]);
        const float a = std::exp(total.largest[r] - largest);
        const float b = std::exp(split.largest[r] - largest);
        m_call.level.blendRow(values, a, others, b, m_valueStride);
        total.sums[r] = total.sums[r] * a + split.sums[r] * b;
        total.largest[r] = largest;
    }
}

void AttentionTile::finish(const SoftmaxState &total) const
{
    const int group = m_call.groupHeads();
    for (int r = 0; r < rows(); ++r) {
        const std::int64_t head = m_rows.kvHead * group + r % group;
        float factor = 1.0F;
        float sum = total.sums[r];
        if (m_call.shape.sinks != nullptr) {
            const float sink = m_call.shape.sinks[head];
            const float largest = std::max(total.largest[r], sink);
            factor = std::exp(total.largest[r] - largest);
            sum = sum * factor + std::exp(sink - largest);
        }
        const float *values = total.values + static_cast<std::int64_t>(r) * m_valueStride;
        const std::int64_t token = m_rows.firstToken + r / group;
        float *target = m_call.out.as<float>() + token * m_call.out.strides[0] + head * m_call.out.strides[1];
        factor /= sum;
        for (int i = 0; i < m_call.valueDim(); ++i)
            target[i] = values[i] * factor;
    }
}

} // namespace kernels
