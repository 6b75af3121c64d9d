// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/experts.h"

#include "kernels/checks.h"

#include <algorithm>
#include <numeric>

namespace kernels {

namespace {

constexpr std::int64_t waveRows = 1024; // bounds what is gathered; eight full tiles keep the threads busy
constexpr std::int64_t gatherRowsPerPart = 8;
constexpr std::int64_t columnUnit = 64; // of a share of columns, so that vectors end where a row's do

} // namespace

void Experts::sortRows(const Call &call)
{
    const auto *ids = call.ids.as<std::int32_t>();
    const std::int64_t count = call.ids.elements();
    m_starts.assign(call.weights.size() + 1, 0);
    for (std::int64_t i = 0; i < count; ++i)
        ++m_starts[static_cast<std::size_t>(ids[i])];
    std::exclusive_scan(m_starts.begin(), m_starts.end(), m_starts.begin(), std::int64_t{0});
    m_rows.resize(static_cast<std::size_t>(count));
    m_next = m_starts;
    for (std::int64_t i = 0; i < count; ++i)
        m_rows[static_cast<std::size_t>(m_next[static_cast<std::size_t>(ids[i])]++)] = i;
}

template<typename Body> void Experts::overWaves(const Call &call, Body body)
{
    sortRows(call);
    m_tiles.clear();
    std::int64_t start = 0; // of the wave, in m_rows
    std::int64_t rows = 0;
    const auto flush = [&] {
        if (rows > 0)
            body(std::span<const std::int64_t>(m_rows).subspan(static_cast<std::size_t>(start),
                                                               static_cast<std::size_t>(rows)),
                 std::span<const WeightTile>(m_tiles));
        m_tiles.clear();
        start += rows;
        rows = 0;
    };
    for (std::size_t e = 0; e < call.weights.size(); ++e) {
        for (std::int64_t first = m_starts[e]; first < m_starts[e + 1]; first += tileRows) {
            const std::int64_t count = std::min<std::int64_t>(tileRows, m_starts[e + 1] - first);
            if (rows + count > waveRows)
                flush();
            m_tiles.push_back({&PackedPanels::of(*call.weights[e]),
                               call.bias.empty() ? nullptr : call.bias[e],
                               {rows, static_cast<int>(count)}});
            rows += count;
        }
    }
    flush();
}

TensorView Experts::gather(const TensorView &x, std::span<const std::int64_t> rows, std::int64_t rowsPerToken)
{
    const std::int64_t columns = x.shape[static_cast<std::size_t>(x.rank - 1)];
    const auto count = static_cast<std::int64_t>(rows.size());
    float *target = m_gathered.reserve<float>(static_cast<std::size_t>(count * columns));
    const auto parts = static_cast<int>((count + gatherRowsPerPart - 1) / gatherRowsPerPart);
    m_pool.run(parts, [&](int part, int) {
        const std::int64_t first = part * gatherRowsPerPart;
        for (std::int64_t i = first; i < std::min(count, first + gatherRowsPerPart); ++i) {
            const float *source = rowOf(x, rows[static_cast<std::size_t>(i)] / rowsPerToken);
            std::copy(source, source + columns, target + i * columns);
        }
    });
    return makeView(target, DType::F32, count, columns);
}

void Experts::gated(const Call &call, Activation activation, const TensorView &x, const TensorView &out)
{
    overWaves(call, [&](std::span<const std::int64_t> rows, std::span<const WeightTile> tiles) {
        m_matmul.gated(tiles, activation, gather(x, rows, call.ids.shape[1]), out, rows.data());
    });
}

void Experts::heads(std::span<const PackedWeight *const> weights, const TensorView &x, const TensorView &out)
{
    const std::int64_t heads = x.shape[1];
    const std::int64_t tokens = x.shape[0];
    m_heads.resize(static_cast<std::size_t>(tokens * heads));
    for (std::size_t i = 0; i < m_heads.size(); ++i)
        m_heads[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(heads));
    const Call call{weights, {}, makeView(m_heads.data(), DType::I32, tokens, heads)};
    overWaves(call, [&](std::span<const std::int64_t> rows, std::span<const WeightTile> tiles) {
        m_matmul.linear(tiles, gather(x, rows, 1), out, rows.data(), false);
    });
}

void Experts::combine(const Call &call, const TensorView &inner, const TensorView &weights, const TensorView &inout)
{
    const std::int64_t n = inout.shape[1];
    const std::int64_t perToken = call.ids.shape[1];
    overWaves(call, [&](std::span<const std::int64_t> rows, std::span<const WeightTile> tiles) {
        const auto count = static_cast<std::int64_t>(rows.size());
        const TensorView products =
            makeView(m_products.reserve<float>(static_cast<std::size_t>(count * n)), DType::F32, count, n);
        m_matmul.linear(tiles, gather(inner, rows, 1), products, nullptr, false);
        // Each thread goes through all rows in order with columns of its own, so a token's sum has one order.
        const std::int64_t units = (n + columnUnit - 1) / columnUnit;
        const auto parts = static_cast<int>(std::min<std::int64_t>(units, m_pool.threads()));
        m_pool.run(parts, [&](int part, int) {
            const std::int64_t first = units * part / parts * columnUnit;
            const std::int64_t last = std::min(n, units * (part + 1) / parts * columnUnit);
            for (std::int64_t i = 0; i < count; ++i) {
                const std::int64_t row = rows[static_cast<std::size_t>(i)];
                const std::int64_t token = row / perToken;
                m_level.blendRow(rowOf(inout, token) + first, 1.0F, rowOf(products, i) + first,
                                 rowOf(weights, token)[row % perToken], last - first);
            }
        });
    });
}

} // namespace kernels
