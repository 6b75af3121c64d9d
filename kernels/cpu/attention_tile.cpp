// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/attention_tile.h"

#include <algorithm>
#include <bit>
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

bool readsKeysDirectly(const AttentionCall &call, int rows)
{
    return readsDirectly(call, rows) && call.level.scoreKeys != nullptr && call.layer.keyType != DType::F32;
}

bool readsValuesDirectly(const AttentionCall &call, int rows)
{
    return readsDirectly(call, rows) && call.level.sumValues != nullptr;
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

KvAddresses::KvAddresses(const KvLayer &layer)
    : m_blockStride(layer.bytesToNextBlock())
{
    for (int side = 0; side < 2; ++side) {
        Side &of = m_sides[side];
        of.first = side == 0 ? layer.keys(0, 0) : layer.values(0, 0);
        of.rowBytes = side == 0 ? layer.keyRowBytes() : layer.valueRowBytes();
        of.headBytes = of.rowBytes * static_cast<std::size_t>(layer.blockTokens);
        of.values = kvValuesOf(side == 0 ? layer.keyType : layer.valueType);
    }
}

AttentionCall::AttentionCall(const LevelKernels &kernels, const TensorView &queries, const KvLayer &keysAndValues,
                             const PagedBatch &paged, const AttentionShape &heads, const TensorView &target)
    : level(kernels)
    , q(queries)
    , layer(keysAndValues)
    , batch(paged)
    , shape(heads)
    , out(target)
    , stored(keysAndValues)
    , blockShift(static_cast<unsigned>(std::countr_zero(static_cast<unsigned>(keysAndValues.blockTokens))))
{
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

KeyRange keysOf(const AttentionCall &call, const AttentionRows &rows, int split)
{
    const int needed = call.firstKey(call.position(rows.sequence, rows.firstToken));
    const int end = call.position(rows.sequence, rows.firstToken + rows.tokens - 1) + 1;
    return {std::max(split * splitKeys, needed / keyTile * keyTile), std::min(end, (split + 1) * splitKeys)};
}

void AttentionAhead::list(const AttentionCall &call, const AttentionRows &rows, int heads, const KeyRange &range)
{
    m_groups.clear();
    const KvLayer &layer = call.layer;
    m_rowBytes = std::max(call.stored.rowBytes(0), call.stored.rowBytes(1));
    const int end = std::min(range.end, range.begin + keyTile);
    for (int first = range.begin; first < end;) { // block by block; a tile may begin within one
        const int last = std::min(end, (first | (layer.blockTokens - 1)) + 1);
        for (int side = 0; side < (layer.keysOnly ? 1 : 2); ++side)
            for (int head = rows.kvHead; head < rows.kvHead + heads; ++head)
                for (int key = first; key < last; key += kvGroupKeys)
                    m_groups.push_back(call.storedRow(rows.sequence, head, side, key));
        first = last;
    }
}

KvTile AttentionAhead::part(int call) const
{
    constexpr int size = kvTileKeys / kvGroupKeys;
    KvTile tile{};
    tile.rowBytes = m_rowBytes;
    const std::size_t first = static_cast<std::size_t>(call) * size;
    for (std::size_t g = 0; g < size && first + g < m_groups.size(); ++g)
        tile.groups[g] = m_groups[first + g];
    return tile;
}

std::size_t AttentionTile::floats(const AttentionCall &call, const AttentionRows &rows)
{
    const int tileRows = rows.tokens * call.groupHeads();
    const auto count = static_cast<std::size_t>(tileRows);
    const int keyFloats = readsKeysDirectly(call, tileRows) ? 0 : roundUp(call.shape.headDim, kvGroupKeys) * keyTile;
    const int valueFloats = readsValuesDirectly(call, tileRows) ? 0 : call.storedStride() * keyTile;
    const std::size_t all = static_cast<std::size_t>(keyFloats + valueFloats) + count * keyTile
        + 2 * SoftmaxState::floats(tileRows, call.valueStride()) + count * static_cast<std::size_t>(call.shape.headDim);
    return (all + panelRows - 1) / panelRows * panelRows; // whole lines
}

AttentionTile::AttentionTile(const AttentionCall &call, const AttentionRows &rows, float *memory)
    : m_call(call)
    , m_rows(rows)
    , m_dim(call.shape.headDim)
    , m_valueStride(call.valueStride())
    , m_storedStride(call.storedStride())
    , m_directKeys(readsKeysDirectly(call, this->rows()))
    , m_directValues(readsValuesDirectly(call, this->rows()))
{
    const auto count = static_cast<std::size_t>(this->rows());
    const std::size_t stateFloats = SoftmaxState::floats(this->rows(), m_valueStride);
    m_keys = memory;
    m_values = m_keys + (m_directKeys ? 0 : roundUp(m_dim, kvGroupKeys) * keyTile);
    m_scores = m_values + (m_directValues ? 0 : m_storedStride * keyTile);
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

KvTile AttentionTile::storedTile(int side, int firstKey, int keys) const
{
    KvTile tile{};
    tile.rowBytes = m_call.stored.rowBytes(side);
    tile.values = m_call.stored.values(side);
    for (int g = 0; g * kvGroupKeys < keys; ++g)
        tile.groups[g] = m_call.storedRow(m_rows.sequence, m_rows.kvHead, side, firstKey + g * kvGroupKeys);
    return tile;
}

void AttentionTile::scoreTile(int firstKey, int keys, const KvTile &ahead)
{
    const KvTile tile = storedTile(0, firstKey, keys);
    const int groups = roundUp(keys, kvGroupKeys) / kvGroupKeys;
    if (m_directKeys) {
        m_call.level.scoreKeys(tile, ahead, groups, m_dim, m_queries, rows(), m_scores);
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

void AttentionTile::sumValues(int firstKey, int keys, const SoftmaxState &state, const KvTile &ahead)
{
    const int group = m_call.groupHeads();
    const KvTile tile = storedTile(1, firstKey, keys);
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
            m_call.level.sumValues(tile, ahead, seen.begin, seen.end, weights, (last - token) * group, sums,
                                   m_valueStride);
        for (int c = 0; c < m_valueStride && seen.begin < seen.end && !m_directValues; c += panelRows)
            m_call.level.outerProducts(m_values + seen.begin * m_storedStride + c, m_storedStride,
                                       seen.end - seen.begin, weights + seen.begin, keyTile, (last - token) * group,
                                       sums + c, m_valueStride, true);
        token = last;
    }
}

void AttentionTile::attendKeys(const KeyRange &range, const SoftmaxState &state, const KvTile &keysAhead,
                               const KvTile &valuesAhead)
{
    const int keys = std::min(keyTile, range.end - range.begin);
    scoreTile(range.begin, keys, keysAhead);
    weighTile(range.begin, keys, state);
    sumValues(range.begin, keys, state, valuesAhead);
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
