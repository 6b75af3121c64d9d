// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/reference/reference_ops.h"

#include "kernels/checks.h"
#include "kernels/reference/reference_matmul.h"

#include <algorithm>
#include <cmath>

namespace kernels {

namespace {

const ReferenceWeight &own(const PackedWeight &weight)
{
    const auto *mine = dynamic_cast<const ReferenceWeight *>(&weight);
    CHECK(mine != nullptr);
    return *mine;
}

} // namespace

std::unique_ptr<Stream> ReferenceOps::makeStream()
{
    return makeHostStream();
}

std::unique_ptr<Buffer> ReferenceOps::allocate(std::size_t bytes)
{
    return allocateHost(bytes);
}

bool ReferenceOps::supportsWeight(DType type) const
{
    return isWeightType(type);
}

std::unique_ptr<PackedWeight> ReferenceOps::pack(std::span<const WeightPart> parts)
{
    checkParts(parts);
    return std::make_unique<ReferenceWeight>(parts);
}

void ReferenceOps::embed(const PackedWeight &table, std::span<const int> ids, TensorView out, Stream &)
{
    checkEmbed(table, ids, out);
    for (std::size_t i = 0; i < ids.size(); ++i)
        own(table).expandRow(ids[i], rowOf(out, static_cast<std::int64_t>(i)));
}

void ReferenceOps::linear(const PackedWeight &weight, TensorView x, TensorView out, const float *bias, Stream &)
{
    checkLinear(weight, x, out, weight.rows());
    referenceProducts(m_pool, own(weight), x, [&](std::int64_t token, std::int64_t row, double value) {
        rowOf(out, token)[row] = static_cast<float>(value + (bias != nullptr ? bias[row] : 0.0F));
    });
}

void ReferenceOps::linearAdd(const PackedWeight &weight, TensorView x, TensorView inout, const float *bias, Stream &)
{
    checkLinear(weight, x, inout, weight.rows());
    referenceProducts(m_pool, own(weight), x, [&](std::int64_t token, std::int64_t row, double value) {
        float &target = rowOf(inout, token)[row];
        target = static_cast<float>(target + value + (bias != nullptr ? bias[row] : 0.0F));
    });
}

void ReferenceOps::linearGated(const PackedWeight &gateUp, Activation activation, TensorView x, TensorView out,
                               const float *bias, Stream &)
{
    checkGated(gateUp);
    checkLinear(gateUp, x, out, gateUp.rows() / 2);
    const std::int64_t width = gateUp.rows();
    std::vector<double> products(static_cast<std::size_t>(x.shape[0] * width));
    referenceProducts(m_pool, own(gateUp), x, [&](std::int64_t token, std::int64_t row, double value) {
        products[static_cast<std::size_t>(token * width + row)] = value + (bias != nullptr ? bias[row] : 0.0F);
    });
    for (std::int64_t token = 0; token < x.shape[0]; ++token) {
        const double *gate = products.data() + token * width;
        const double *up = gate + width / 2;
        for (std::int64_t i = 0; i < width / 2; ++i)
            rowOf(out, token)[i] = static_cast<float>(gatedActivation(activation, gate[i], up[i]));
    }
}

void ReferenceOps::linearHeads(std::span<const PackedWeight *const> weights, TensorView x, TensorView out, Stream &)
{
    checkLinearHeads(weights, x, out);
    for (std::int64_t head = 0; head < x.shape[1]; ++head) {
        const TensorView target = headOf(out, head);
        referenceProducts(m_pool, own(*weights[static_cast<std::size_t>(head)]), headOf(x, head),
                          [&](std::int64_t token, std::int64_t row, double value) {
                              rowOf(target, token)[row] = static_cast<float>(value);
                          });
    }
}

void ReferenceOps::activate(Activation activation, TensorView inout, Stream &)
{
    checkFloatView(inout, 2);
    for (std::int64_t row = 0; row < inout.shape[0]; ++row) {
        for (std::int64_t i = 0; i < inout.shape[1]; ++i)
            rowOf(inout, row)[i] = static_cast<float>(activated(activation, rowOf(inout, row)[i]));
    }
}

void ReferenceOps::rmsNorm(TensorView x, const float *weight, float epsilon, TensorView out, Stream &)
{
    checkNorm(x, out);
    const std::int64_t n = x.shape[static_cast<std::size_t>(x.rank - 1)];
    for (std::int64_t row = 0; row < rowCount(x); ++row) {
        const float *source = rowOf(x, row);
        double squares = 0.0;
        for (std::int64_t i = 0; i < n; ++i)
            squares += static_cast<double>(source[i]) * source[i];
        const double factor = 1.0 / std::sqrt(squares / static_cast<double>(n) + epsilon);
        for (std::int64_t i = 0; i < n; ++i)
            rowOf(out, row)[i] = static_cast<float>(source[i] * factor * (weight != nullptr ? weight[i] : 1.0F));
    }
}

void ReferenceOps::layerNorm(TensorView x, const float *weight, const float *bias, float epsilon, TensorView out,
                             Stream &)
{
    checkNorm(x, out);
    const std::int64_t n = x.shape[static_cast<std::size_t>(x.rank - 1)];
    for (std::int64_t row = 0; row < rowCount(x); ++row) {
        const float *source = rowOf(x, row);
        double mean = 0.0;
        for (std::int64_t i = 0; i < n; ++i)
            mean += source[i];
        mean /= static_cast<double>(n);
        double squares = 0.0;
        for (std::int64_t i = 0; i < n; ++i)
            squares += (source[i] - mean) * (source[i] - mean);
        const double factor = 1.0 / std::sqrt(squares / static_cast<double>(n) + epsilon);
        for (std::int64_t i = 0; i < n; ++i)
            rowOf(out, row)[i] = static_cast<float>((source[i] - mean) * factor * (weight != nullptr ? weight[i] : 1.0F)
                                                    + (bias != nullptr ? bias[i] : 0.0F));
    }
}

void ReferenceOps::zero(TensorView out, Stream &)
{
    checkFloatView(out, 2);
    for (std::int64_t row = 0; row < out.shape[0]; ++row)
        std::fill_n(rowOf(out, row), out.shape[1], 0.0F);
}

void ReferenceOps::copy(TensorView x, TensorView out, Stream &)
{
    checkNorm(x, out);
    for (std::int64_t row = 0; row < rowCount(x); ++row)
        std::copy_n(rowOf(x, row), x.shape[static_cast<std::size_t>(x.rank - 1)], rowOf(out, row));
}

void ReferenceOps::add(TensorView x, TensorView inout, Stream &)
{
    checkSameShape(x, inout);
    const std::int64_t n = x.shape[static_cast<std::size_t>(x.rank - 1)];
    for (std::int64_t row = 0; row < rowCount(x); ++row) {
        for (std::int64_t i = 0; i < n; ++i)
            rowOf(inout, row)[i] += rowOf(x, row)[i];
    }
}

void ReferenceOps::gatedAdd(TensorView x, TensorView gate, TensorView inout, Stream &)
{
    checkGatedAdd(x, gate, inout);
    for (std::int64_t row = 0; row < x.shape[0]; ++row) {
        const double factor = 1.0 / (1.0 + std::exp(-static_cast<double>(*rowOf(gate, row))));
        for (std::int64_t i = 0; i < x.shape[1]; ++i) {
            float &target = rowOf(inout, row)[i];
            target = static_cast<float>(target + factor * rowOf(x, row)[i]);
        }
    }
}

void ReferenceOps::scale(TensorView inout, float factor, Stream &)
{
    checkFloatView(inout, 2);
    for (std::int64_t row = 0; row < inout.shape[0]; ++row) {
        for (std::int64_t i = 0; i < inout.shape[1]; ++i)
            rowOf(inout, row)[i] *= factor;
    }
}

void ReferenceOps::softCap(TensorView inout, float cap, Stream &)
{
    checkFloatView(inout, 2);
    CHECK(cap > 0.0F);
    for (std::int64_t row = 0; row < inout.shape[0]; ++row) {
        for (std::int64_t i = 0; i < inout.shape[1]; ++i) {
            float &value = rowOf(inout, row)[i];
            value = static_cast<float>(cap * std::tanh(static_cast<double>(value) / cap));
        }
    }
}

void ReferenceOps::clamp(TensorView inout, float limit, Stream &)
{
    checkFloatView(inout, 2);
    CHECK(limit > 0.0F);
    for (std::int64_t row = 0; row < inout.shape[0]; ++row) {
        for (std::int64_t i = 0; i < inout.shape[1]; ++i)
            rowOf(inout, row)[i] = std::clamp(rowOf(inout, row)[i], -limit, limit);
    }
}

void ReferenceOps::rope(TensorView heads, std::span<const int> positions, const RopeTable &table, Stream &)
{
    checkRope(heads, positions, table);
    const int half = table.rotaryDim / 2;
    for (std::int64_t row = 0; row < rowCount(heads); ++row) {
        float *head = rowOf(heads, row);
        const double position = positions[static_cast<std::size_t>(row / heads.shape[1])];
        for (int i = 0; i < half; ++i) {
            const double angle = position * table.inverseFrequencies[static_cast<std::size_t>(i)];
            const double cosine = std::cos(angle) * table.attentionFactor;
            const double sine = std::sin(angle) * table.attentionFactor;
            float &first = head[table.interleaved ? 2 * i : i];
            float &second = head[table.interleaved ? 2 * i + 1 : i + half];
            const double a = first;
            const double b = second;
            first = static_cast<float>(a * cosine - b * sine);
            second = static_cast<float>(a * sine + b * cosine);
        }
    }
}

void ReferenceOps::kvStore(TensorView k, TensorView v, const KvLayer &layer, std::span<const int> slots, Stream &)
{
    checkKvStore(k, v, layer, slots);
    const auto store = [&](const TensorView &x, DType type, std::byte *first, std::int64_t row, int offset) {
        storeKvRow(type, rowOf(x, row), layer.headDim,
                   first + static_cast<std::size_t>(offset) * kvRowBytes(type, layer.headDim));
    };
    for (std::int64_t row = 0; row < rowCount(k); ++row) {
        const int slot = slots[static_cast<std::size_t>(row / layer.kvHeads)];
        const int block = slot / layer.blockTokens;
        const int offset = slot % layer.blockTokens;
        const auto head = static_cast<int>(row % layer.kvHeads);
        store(k, layer.keyType, layer.keys(block, head), row, offset);
        if (!layer.keysOnly)
            store(v, layer.valueType, layer.values(block, head), row, offset);
    }
}

void ReferenceOps::gatherRows(TensorView x, std::span<const int> rows, TensorView out, Stream &)
{
    checkGather(x, rows, out);
    gatherHostRows(x, rows, out);
}

void ReferenceOps::copyBlock(const KvLayer &layer, int from, int to, Stream &)
{
    checkCopyBlock(layer, from, to);
    copyHostBlock(layer, from, to);
}

} // namespace kernels
