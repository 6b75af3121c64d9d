// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/baselines/score_matrix_attention.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

// The loops over scores are left to the compiler, for the instruction set that the machine has.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)                  \
    && !defined(__SANITIZE_THREAD__)
#define LATHE_VECTORISED __attribute__((optimize("O3", "fast-math"), target_clones("default", "avx2", "avx512f")))
#else
#define LATHE_VECTORISED
#endif

namespace engine::baselines {
namespace {

/// e^x for x <= 0, to about 1e-7: 2^i times a polynomial of 2^f on [-0.5, 0.5].
inline float exponential(float x)
{
    const float scaled = std::max(x, -87.0F) * 1.44269504F;
    const auto whole = static_cast<std::int32_t>(scaled - 0.5F);
    const float f = (scaled - static_cast<float>(whole)) * 0.69314718F;
    const float poly =
        1 + f * (1 + f * (0.5F + f * (0.16666667F + f * (0.041666667F + f * (0.0083333333F + f * 0.0013888889F)))));
    return poly * std::bit_cast<float>((whole + 127) << 23);
}

LATHE_VECTORISED float largest(const float *row, int count)
{
    float most = row[0];
    for (int i = 1; i < count; ++i)
        most = row[i] > most ? row[i] : most;
    return most;
}

/// row = e^(scale * (row - most)); returns the sum.
LATHE_VECTORISED float exponentials(float *row, int count, float most, float scale)
{
    float sum = 0;
    for (int i = 0; i < count; ++i) {
        row[i] = exponential((row[i] - most) * scale);
        sum += row[i];
    }
    return sum;
}

LATHE_VECTORISED void scaleRow(float *row, int count, float factor)
{
    for (int i = 0; i < count; ++i)
        row[i] *= factor;
}

std::unique_ptr<kernels::PackedWeight> packMatrix(kernels::Ops &ops, const std::vector<float> &values,
                                                  std::int64_t rows, std::int64_t columns)
{
    kernels::WeightPart part;
    part.name = "attention";
    part.rows = rows;
    part.columns = columns;
    part.data = reinterpret_cast<const std::byte *>(values.data());
    return ops.pack(std::array{part});
}

} // namespace

ScoreMatrixAttention::ScoreMatrixAttention(kernels::Ops &ops, const kernels::AttentionShape &shape, int context,
                                           std::span<const float> keys, std::span<const float> values)
    : m_ops(ops)
    , m_shape(shape)
    , m_context(context)
    , m_pool(ops.threads())
    , m_stream(ops.makeStream())
{
    const int dim = shape.headDim;
    const auto count = static_cast<std::size_t>(context) * static_cast<std::size_t>(dim);
    std::vector<float> key(count);
    std::vector<float> transposed(count);
    for (int head = 0; head < shape.kvHeads; ++head) {
        for (int token = 0; token < context; ++token)
            for (int i = 0; i < dim; ++i) {
                const auto from = static_cast<std::size_t>((token * shape.kvHeads + head) * dim + i);
                key[static_cast<std::size_t>(token * dim + i)] = keys[from];
                transposed[static_cast<std::size_t>(i) * static_cast<std::size_t>(context)
                           + static_cast<std::size_t>(token)] = values[from];
            }
        m_keys.push_back(packMatrix(ops, key, context, dim));
        m_values.push_back(packMatrix(ops, transposed, dim, context));
    }
}

ScoreMatrixAttention::~ScoreMatrixAttention() = default;

std::size_t ScoreMatrixAttention::scoreBytes() const
{
    const auto context = static_cast<std::size_t>(m_context);
    return sizeof(float) * static_cast<std::size_t>(m_shape.heads) * context * context;
}

void ScoreMatrixAttention::softmax(float *scores)
{
    m_pool.run(m_context, [&](int token, int) {
        float *row = scores + static_cast<std::size_t>(token) * static_cast<std::size_t>(m_context);
        const int seen = token + 1;
        const float sum = exponentials(row, seen, largest(row, seen), m_shape.scale);
        scaleRow(row, seen, 1.0F / sum);
        std::fill(row + seen, row + m_context, 0.0F);
    });
}

void ScoreMatrixAttention::run(std::span<const float> q, std::span<float> out)
{
    if (!m_scores)
        m_scores = m_ops.allocate(scoreBytes());
    const auto perHead = static_cast<std::size_t>(m_context) * static_cast<std::size_t>(m_shape.headDim);
    const auto matrixBytes = scoreBytes() / static_cast<std::size_t>(m_shape.heads);
    const auto view = [&](const float *data, int columns) {
        return kernels::makeView(const_cast<float *>(data), kernels::DType::F32, m_context, columns);
    };
    const auto matrix = [&](int head) {
        return reinterpret_cast<float *>(m_scores->data() + matrixBytes * static_cast<std::size_t>(head));
    };
    const int group = m_shape.heads / m_shape.kvHeads;
    const auto at = [perHead](int head) { return perHead * static_cast<std::size_t>(head); };
    for (int head = 0; head < m_shape.heads; ++head)
        m_ops.linear(*m_keys[static_cast<std::size_t>(head / group)], view(q.data() + at(head), m_shape.headDim),
                     view(matrix(head), m_context), nullptr, *m_stream);
    for (int head = 0; head < m_shape.heads; ++head)
        softmax(matrix(head));
    for (int head = 0; head < m_shape.heads; ++head)
        m_ops.linear(*m_values[static_cast<std::size_t>(head / group)], view(matrix(head), m_context),
                     view(out.data() + at(head), m_shape.headDim), nullptr, *m_stream);
}

} // namespace engine::baselines
