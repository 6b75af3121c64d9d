// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/checks.h"
#include "kernels/reference/reference_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kernels {

namespace {

/// Keys and values of one sequence and key/value head.
class PagedRows {
public:
    PagedRows(const TensorView &kvLayer, const PagedBatch &batch, std::size_t sequence, std::int64_t head)
        : m_layer(kvLayer)
        , m_table(batch.blockTables.data() + sequence * static_cast<std::size_t>(batch.maxBlocks))
        , m_blockTokens(batch.blockTokens)
        , m_head(head)
    {
    }

    /// Element `i` of the key (side 0) or value (side 1) of a position.
    [[nodiscard]] double at(int side, int position, std::int64_t i) const
    {
        const std::int64_t block = m_table[position / m_blockTokens] * 2 + side;
        const std::int64_t index = block * m_layer.strides[0] + m_head * m_layer.strides[1]
            + position % m_blockTokens * m_layer.strides[2] + i;
        switch (m_layer.dtype) {
        case DType::F16:
            return halfToFloat(m_layer.as<std::uint16_t>()[index]);
        case DType::BF16:
            return bf16ToFloat(m_layer.as<std::uint16_t>()[index]);
        default:
            return m_layer.as<float>()[index];
        }
    }

private:
    const TensorView &m_layer;
    const int *m_table;
    int m_blockTokens;
    std::int64_t m_head;
};

double score(const float *query, const PagedRows &rows, int position, const AttentionShape &shape)
{
    double sum = 0.0;
    for (int i = 0; i < shape.headDim; ++i)
        sum += query[i] * rows.at(0, position, i);
    sum *= shape.scale;
    return shape.softCap > 0.0F ? shape.softCap * std::tanh(sum / shape.softCap) : sum;
}

/// One query row: all scores, softmax, weighted sum of values.
void attendRow(const float *query, const PagedRows &rows, int position, const AttentionShape &shape, const float *sink,
               float *out)
{
    const int first = shape.window > 0 ? std::max(0, position - shape.window + 1) : 0;
    std::vector<double> weights;
    double largest = sink != nullptr ? *sink : -std::numeric_limits<double>::infinity();
    for (int key = first; key <= position; ++key) {
        weights.push_back(score(query, rows, key, shape));
        largest = std::max(largest, weights.back());
    }
    double total = sink != nullptr ? std::exp(*sink - largest) : 0.0;
    for (double &weight : weights) {
        weight = std::exp(weight - largest);
        total += weight;
    }
    std::vector<double> sums(static_cast<std::size_t>(shape.headDim));
    for (std::size_t key = 0; key < weights.size(); ++key) {
        for (std::size_t i = 0; i < sums.size(); ++i)
            sums[i] += weights[key] * rows.at(1, first + static_cast<int>(key), static_cast<std::int64_t>(i));
    }
    for (std::size_t i = 0; i < sums.size(); ++i)
        out[i] = static_cast<float>(sums[i] / total);
}

} // namespace

void ReferenceOps::pagedAttention(TensorView q, TensorView kvLayer, const PagedBatch &batch,
                                  const AttentionShape &shape, TensorView out, Stream &)
{
    checkAttention(q, kvLayer, batch, shape, out);
    m_pool.run(static_cast<int>(rowCount(q)), [&](int part, int) {
        const int token = part / shape.heads;
        const int head = part % shape.heads;
        const auto after = std::upper_bound(batch.queryStarts.begin(), batch.queryStarts.end(), token);
        const auto sequence = static_cast<std::size_t>(after - batch.queryStarts.begin() - 1);
        const int position = batch.contextLengths[sequence] - (batch.queryStarts[sequence + 1] - token);
        const PagedRows rows(kvLayer, batch, sequence, head / (shape.heads / shape.kvHeads));
        attendRow(rowOf(q, part), rows, position, shape, shape.sinks != nullptr ? shape.sinks + head : nullptr,
                  rowOf(out, part));
    });
}

} // namespace kernels
