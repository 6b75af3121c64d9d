// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/checks.h"
#include "kernels/reference/dot.h"
#include "kernels/reference/reference_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kernels {

namespace {

/// Keys and values of one sequence and key/value head.
class PagedRows {
public:
    PagedRows(const KvLayer &layer, const PagedBatch &batch, std::size_t sequence, int head)
        : m_layer(layer)
        , m_table(batch.blockTables.data() + sequence * static_cast<std::size_t>(batch.maxBlocks))
        , m_head(head)
    {
    }

    /// The key (side 0) or value (side 1) of a position, headDim floats in `target`.
    void expand(int side, int position, std::vector<float> &target) const
    {
        const int block = m_table[position / m_layer.blockTokens];
        const DType type = side == 0 ? m_layer.keyType : m_layer.valueType;
        const std::byte *first = side == 0 ? m_layer.keys(block, m_head) : m_layer.values(block, m_head);
        const auto offset = static_cast<std::size_t>(position % m_layer.blockTokens);
        target.resize(static_cast<std::size_t>(m_layer.headDim));
        expandKvRow(type, first + offset * kvRowBytes(type, m_layer.headDim), m_layer.headDim, target.data());
    }

private:
    const KvLayer &m_layer;
    const int *m_table;
    int m_head;
};

double score(const float *query, const std::vector<float> &key, const AttentionShape &shape)
{
    const double sum = dot(query, key.data(), key.size()) * shape.scale;
    return shape.softCap > 0.0F ? shape.softCap * std::tanh(sum / shape.softCap) : sum;
}

/// One token's query heads of one key head: all scores, softmax, weighted sums of values.
class GroupAttention {
public:
    GroupAttention(const AttentionShape &shape, const TensorView &q, const TensorView &out, int token, int kvHead)
        : m_shape(shape)
        , m_q(q)
        , m_out(out)
        , m_token(token)
        , m_heads(shape.heads / shape.kvHeads)
        , m_firstHead(kvHead * m_heads)
    {
    }

    void run(const PagedRows &rows, int position) const
    {
        const int first = m_shape.window > 0 ? std::max(0, position - m_shape.window + 1) : 0;
        const auto heads = static_cast<std::size_t>(m_heads);
        std::vector<std::vector<double>> weights(heads);
        std::vector<float> row;
        for (int key = first; key <= position; ++key) {
            rows.expand(0, key, row);
            for (std::size_t h = 0; h < heads; ++h)
                weights[h].push_back(score(rowOf(m_q, index(h)), row, m_shape));
        }
        for (std::size_t h = 0; h < heads; ++h)
            normalize(weights[h], h);
        std::vector<std::vector<double>> sums(heads,
                                              std::vector<double>(static_cast<std::size_t>(valueDimOf(m_shape))));
        for (int key = first; key <= position; ++key) {
            rows.expand(1, key, row);
            for (std::size_t h = 0; h < heads; ++h) {
                for (std::size_t i = 0; i < sums[h].size(); ++i)
                    sums[h][i] += weights[h][static_cast<std::size_t>(key - first)] * static_cast<double>(row[i]);
            }
        }
        for (std::size_t h = 0; h < heads; ++h)
            std::transform(sums[h].begin(), sums[h].end(), rowOf(m_out, index(h)),
                           [](double sum) { return static_cast<float>(sum); });
    }

private:
    /// Row of q and out that holds a head of the group.
    [[nodiscard]] std::int64_t index(std::size_t head) const
    {
        return static_cast<std::int64_t>(m_token) * m_shape.heads + m_firstHead + static_cast<std::int64_t>(head);
    }

    /// Softmax in place; a sink takes its share and gives nothing.
    void normalize(std::vector<double> &weights, std::size_t head) const
    {
        const float *sink = m_shape.sinks != nullptr ? m_shape.sinks + m_firstHead + head : nullptr;
        double largest = sink != nullptr ? *sink : -std::numeric_limits<double>::infinity();
        for (const double weight : weights)
            largest = std::max(largest, weight);
        double total = sink != nullptr ? std::exp(*sink - largest) : 0.0;
        for (double &weight : weights) {
            weight = std::exp(weight - largest);
            total += weight;
        }
        for (double &weight : weights)
            weight /= total;
    }

    const AttentionShape &m_shape;
    const TensorView &m_q;
    const TensorView &m_out;
    int m_token;
    int m_heads;
    int m_firstHead;
};

} // namespace

void ReferenceOps::pagedAttention(TensorView q, const KvLayer &layer, const PagedBatch &batch,
                                  const AttentionShape &shape, TensorView out, Stream &)
{
    checkAttention(q, layer, batch, shape, out);
    m_pool.run(static_cast<int>(q.shape[0]) * shape.kvHeads, [&](int part, int) {
        const int token = part / shape.kvHeads;
        const int kvHead = part % shape.kvHeads;
        const auto after = std::upper_bound(batch.queryStarts.begin(), batch.queryStarts.end(), token);
        const auto sequence = static_cast<std::size_t>(after - batch.queryStarts.begin() - 1);
        const int position = batch.contextLengths[sequence] - (batch.queryStarts[sequence + 1] - token);
        const PagedRows rows(layer, batch, sequence, kvHead);
        GroupAttention(shape, q, out, token, kvHead).run(rows, position);
    });
}

} // namespace kernels
