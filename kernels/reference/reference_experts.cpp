// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/checks.h"
#include "kernels/reference/dot.h"
#include "kernels/reference/reference_matmul.h"
#include "kernels/reference/reference_ops.h"

#include <vector>

namespace kernels {

namespace {

/// Rows of a [tokens * k, n] matrix that belong to each expert.
std::vector<std::vector<std::int64_t>> rowsByExpert(const TensorView &ids, std::size_t experts)
{
    std::vector<std::vector<std::int64_t>> rows(experts);
    for (std::int64_t i = 0; i < ids.elements(); ++i)
        rows[static_cast<std::size_t>(ids.as<std::int32_t>()[i])].push_back(i);
    return rows;
}

/// Products y[row, output] of some rows with one expert, one expanded weight row at a time.
template<typename Store>
void expertProducts(const PackedWeight &weight, const std::vector<std::int64_t> &rows, const TensorView &x,
                    std::int64_t rowsPerToken, Store store)
{
    const auto *expert = dynamic_cast<const ReferenceWeight *>(&weight);
    CHECK(expert != nullptr);
    std::vector<float> weights(static_cast<std::size_t>(weight.columns()));
    for (std::int64_t output = 0; output < weight.rows() && !rows.empty(); ++output) {
        expert->expandRow(output, weights.data());
        for (const std::int64_t row : rows)
            store(row, output, dot(rowOf(x, row / rowsPerToken), weights.data(), weights.size()));
    }
}

} // namespace

void ReferenceOps::route(TensorView logits, const RouterShape &shape, TensorView ids, TensorView weights, Stream &)
{
    checkRoute(logits, shape, ids, weights);
    HostRouter router;
    for (std::int64_t token = 0; token < logits.shape[0]; ++token)
        router.route(rowOf(logits, token), shape, ids.as<std::int32_t>() + token * ids.shape[1], rowOf(weights, token));
}

void ReferenceOps::expertsGated(std::span<const PackedWeight *const> gateUp, Activation activation, TensorView x,
                                TensorView ids, std::span<const float *const> bias, TensorView out, Stream &)
{
    checkExperts(gateUp, ids, bias);
    checkGated(*gateUp[0]);
    checkExpertRows(*gateUp[0], x, ids.shape[0], out, ids.elements(), gateUp[0]->rows() / 2);
    const std::int64_t width = gateUp[0]->rows();
    const auto rows = rowsByExpert(ids, gateUp.size());
    m_pool.run(static_cast<int>(gateUp.size()), [&](int part, int) {
        const auto e = static_cast<std::size_t>(part);
        std::vector<std::vector<double>> products(rows[e].size(), std::vector<double>(static_cast<std::size_t>(width)));
        std::size_t next = 0;
        expertProducts(*gateUp[e], rows[e], x, ids.shape[1], [&](std::int64_t, std::int64_t output, double value) {
            const double offset = bias.empty() ? 0.0 : static_cast<double>(bias[e][output]);
            products[next][static_cast<std::size_t>(output)] = value + offset;
            next = (next + 1) % products.size();
        });
        for (std::size_t r = 0; r < rows[e].size(); ++r) {
            const double *gate = products[r].data();
            for (std::int64_t i = 0; i < width / 2; ++i)
                rowOf(out, rows[e][r])[i] =
                    static_cast<float>(gatedActivation(activation, gate[i], gate[i + width / 2]));
        }
    });
}

void ReferenceOps::expertsCombine(std::span<const PackedWeight *const> down, TensorView inner, TensorView ids,
                                  TensorView weights, std::span<const float *const> bias, TensorView inout, Stream &)
{
    checkExperts(down, ids, bias);
    checkFloatView(weights, 2);
    CHECK(weights.shape == ids.shape);
    checkExpertRows(*down[0], inner, ids.elements(), inout, ids.shape[0], down[0]->rows());
    const auto n = static_cast<std::size_t>(down[0]->rows());
    const auto rows = rowsByExpert(ids, down.size());
    std::vector<double> products(static_cast<std::size_t>(ids.elements()) * n);
    m_pool.run(static_cast<int>(down.size()), [&](int part, int) {
        const auto e = static_cast<std::size_t>(part);
        expertProducts(*down[e], rows[e], inner, 1, [&](std::int64_t row, std::int64_t output, double value) {
            const double offset = bias.empty() ? 0.0 : static_cast<double>(bias[e][output]);
            products[static_cast<std::size_t>(row) * n + static_cast<std::size_t>(output)] = value + offset;
        });
    });
    for (std::int64_t token = 0; token < ids.shape[0]; ++token) {
        for (std::size_t i = 0; i < n; ++i) {
            double sum = static_cast<double>(rowOf(inout, token)[i]);
            for (std::int64_t r = 0; r < ids.shape[1]; ++r)
                sum += rowOf(weights, token)[r] * products[static_cast<std::size_t>(token * ids.shape[1] + r) * n + i];
            rowOf(inout, token)[i] = static_cast<float>(sum);
        }
    }
}

} // namespace kernels
