// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/reference/reference_matmul.h"

#include "kernels/checks.h"
#include "kernels/reference/dot.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kernels {

namespace {

constexpr std::int64_t rowsPerPart = 16;

std::vector<double> widen(const TensorView &x)
{
    std::vector<double> wide;
    wide.reserve(static_cast<std::size_t>(x.elements()));
    for (std::int64_t token = 0; token < x.shape[0]; ++token) {
        const float *row = rowOf(x, token);
        wide.insert(wide.end(), row, row + x.shape[1]);
    }
    return wide;
}

} // namespace

ReferenceWeight::ReferenceWeight(std::span<const WeightPart> parts)
    : m_parts(parts.begin(), parts.end())
{
    m_columns = parts[0].columns;
    for (const WeightPart &part : parts) {
        m_rows += part.rows;
        m_partRows.push_back(part.rows);
        m_bytesPerPass += static_cast<std::size_t>(part.rows) * rowBytes(part.type, part.columns);
    }
}

void ReferenceWeight::expandRow(std::int64_t row, float *target) const
{
    for (const WeightPart &part : m_parts) {
        if (row < part.rows) {
            const std::size_t offset = static_cast<std::size_t>(row) * rowBytes(part.type, part.columns);
            if (part.columnOrder == nullptr) {
                dequantize(part.type, part.data + offset, target, part.columns);
                return;
            }
            std::vector<float> stored(static_cast<std::size_t>(part.columns));
            dequantize(part.type, part.data + offset, stored.data(), part.columns);
            for (std::size_t k = 0; k < stored.size(); ++k)
                target[part.columnOrder[k]] = stored[k];
            return;
        }
        row -= part.rows;
    }
    CHECK(row < 0);
}

void referenceProducts(ThreadPool &pool, const ReferenceWeight &weight, const TensorView &x,
                       const std::function<void(std::int64_t, std::int64_t, double)> &store)
{
    const std::vector<double> wideX = widen(x);
    const auto columns = static_cast<std::size_t>(weight.columns());
    const std::int64_t tokens = x.shape[0];
    const auto parts = static_cast<int>((weight.rows() + rowsPerPart - 1) / rowsPerPart);
    pool.run(parts, [&](int part, int) {
        const std::int64_t first = part * rowsPerPart;
        const std::int64_t last = std::min(first + rowsPerPart, weight.rows());
        std::vector<float> row(columns);
        std::vector<double> wideRow(columns);
        for (std::int64_t r = first; r < last; ++r) {
            weight.expandRow(r, row.data());
            std::copy(row.begin(), row.end(), wideRow.begin());
            for (std::int64_t token = 0; token < tokens; ++token)
                store(token, r, dot(wideX.data() + static_cast<std::size_t>(token) * columns, wideRow.data(), columns));
        }
    });
}

double activated(Activation activation, double value)
{
    switch (activation) {
    case Activation::Silu:
        return value / (1.0 + std::exp(-value));
    case Activation::GeluTanh:
        return 0.5 * value
            * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (value + 0.044715 * value * value * value)));
    case Activation::GeluErf:
        return 0.5 * value * (1.0 + std::erf(value / std::numbers::sqrt2));
    case Activation::Relu:
        return std::max(value, 0.0);
    case Activation::SwigluClamped:
        break;
    }
    CHECK(activation != Activation::SwigluClamped); // not defined without a second factor
    return value;
}

double gatedActivation(Activation activation, double gate, double up)
{
    if (activation != Activation::SwigluClamped)
        return activated(activation, gate) * up;
    const double limited = std::min(gate, 7.0);
    return (std::clamp(up, -7.0, 7.0) + 1.0) * limited / (1.0 + std::exp(-1.702 * limited));
}

} // namespace kernels
