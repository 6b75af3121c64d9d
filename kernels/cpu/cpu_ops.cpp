// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/cpu_ops.h"

#include "kernels/checks.h"
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/level_choice.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace kernels {

namespace {

constexpr std::int64_t floatsPerPart = 8192; // less work than this is not worth another thread

const PackedPanels &own(const PackedWeight &weight)
{
    return PackedPanels::of(weight);
}

} // namespace

CpuOps::CpuOps(Isa isa, int threads)
    : CpuOps(isa, kernelsOf(isa), threads)
{
}

CpuOps::CpuOps(Isa isa, const LevelKernels &level, int threads)
    : m_isa(isa)
    , m_level(level)
    , m_pool(threads)
    , m_matmul(m_level, m_pool)
    , m_experts(m_level, m_pool, m_matmul)
    , m_attention(m_level, m_pool)
{
}

template<typename Body> void CpuOps::overRows(std::int64_t count, std::int64_t width, Body body)
{
    const std::int64_t perPart = std::max<std::int64_t>(1, floatsPerPart / std::max<std::int64_t>(1, width));
    m_pool.run(static_cast<int>((count + perPart - 1) / perPart), [&](int part, int worker) {
        const std::int64_t first = part * perPart;
        for (std::int64_t row = first; row < std::min(count, first + perPart); ++row) {
            if constexpr (std::is_invocable_v<Body, std::int64_t, int>)
                body(row, worker);
            else
                body(row);
        }
    });
}

std::unique_ptr<Stream> CpuOps::makeStream()
{
    return makeHostStream();
}

std::unique_ptr<Buffer> CpuOps::allocate(std::size_t bytes)
{
    return allocateHost(bytes);
}

bool CpuOps::supportsWeight(DType type) const
{
    return isWeightType(type);
}

std::unique_ptr<PackedWeight> CpuOps::pack(std::span<const WeightPart> parts)
{
    checkParts(parts);
    auto packed = std::make_unique<PackedPanels>(parts, m_arena, m_pool);
    m_matmul.chooseProducts(*packed);
    return packed;
}

void CpuOps::embed(const PackedWeight &table, std::span<const int> ids, TensorView out, Stream &)
{
    checkEmbed(table, ids, out);
    const PackedPanels &panels = own(table);
    overRows(out.shape[0], out.shape[1],
             [&](std::int64_t row) { panels.expandRow(ids[static_cast<std::size_t>(row)], rowOf(out, row)); });
}

void CpuOps::linear(const PackedWeight &weight, TensorView x, TensorView out, const float *bias, Stream &)
{
    checkLinear(weight, x, out, weight.rows());
    m_matmul.linear(own(weight), x, out, bias, false);
}

void CpuOps::linearAdd(const PackedWeight &weight, TensorView x, TensorView inout, const float *bias, Stream &)
{
    checkLinear(weight, x, inout, weight.rows());
    m_matmul.linear(own(weight), x, inout, bias, true);
}

void CpuOps::linearGated(const PackedWeight &gateUp, Activation activation, TensorView x, TensorView out,
                         const float *bias, Stream &)
{
    checkGated(gateUp);
    checkLinear(gateUp, x, out, gateUp.rows() / 2);
    m_matmul.gated(own(gateUp), activation, x, out, bias);
}

void CpuOps::linearHeads(std::span<const PackedWeight *const> weights, TensorView x, TensorView out, Stream &)
{
    checkLinearHeads(weights, x, out);
    m_experts.heads(weights, x, out);
}

void CpuOps::activate(Activation activation, TensorView inout, Stream &)
{
    checkFloatView(inout, 2);
    CHECK(activation != Activation::SwigluClamped);
    const GatedRow row = m_level.gatedRows[static_cast<std::size_t>(activation)];
    const auto n = static_cast<int>(inout.shape[1]);
    overRows(inout.shape[0], n, [&](std::int64_t r) { row(rowOf(inout, r), nullptr, rowOf(inout, r), n); });
}

void CpuOps::rmsNorm(TensorView x, const float *weight, float epsilon, TensorView out, Stream &)
{
    checkNorm(x, out);
    const std::int64_t n = x.shape[static_cast<std::size_t>(x.rank - 1)];
    overRows(rowCount(x), n,
             [&](std::int64_t row) { m_level.rmsNormRow(rowOf(x, row), weight, epsilon, rowOf(out, row), n); });
}

void CpuOps::layerNorm(TensorView x, const float *weight, const float *bias, float epsilon, TensorView out, Stream &)
{
    checkNorm(x, out);
    const std::int64_t n = x.shape[static_cast<std::size_t>(x.rank - 1)];
    overRows(rowCount(x), n,
             [&](std::int64_t row) { m_level.layerNormRow(rowOf(x, row), weight, bias, epsilon, rowOf(out, row), n); });
}

void CpuOps::zero(TensorView out, Stream &)
{
    checkFloatView(out, 2);
    overRows(out.shape[0], out.shape[1], [&](std::int64_t row) { std::fill_n(rowOf(out, row), out.shape[1], 0.0F); });
}

void CpuOps::copy(TensorView x, TensorView out, Stream &)
{
    checkNorm(x, out);
    const std::int64_t n = x.shape[static_cast<std::size_t>(x.rank - 1)];
    overRows(rowCount(x), n, [&](std::int64_t row) { std::copy_n(rowOf(x, row), n, rowOf(out, row)); });
}

void CpuOps::add(TensorView x, TensorView inout, Stream &)
{
    checkSameShape(x, inout);
    const std::int64_t n = x.shape[static_cast<std::size_t>(x.rank - 1)];
    overRows(rowCount(x), n, [&](std::int64_t row) { m_level.addRow(rowOf(x, row), rowOf(inout, row), n); });
}

void CpuOps::gatedAdd(TensorView x, TensorView gate, TensorView inout, Stream &)
{
    checkGatedAdd(x, gate, inout);
    overRows(x.shape[0], x.shape[1], [&](std::int64_t row) {
        const float factor = 1.0F / (1.0F + std::exp(-*rowOf(gate, row)));
        m_level.blendRow(rowOf(inout, row), 1.0F, rowOf(x, row), factor, x.shape[1]);
    });
}

void CpuOps::scale(TensorView inout, float factor, Stream &)
{
    checkFloatView(inout, 2);
    overRows(inout.shape[0], inout.shape[1],
             [&](std::int64_t row) { m_level.scaleRow(rowOf(inout, row), factor, inout.shape[1]); });
}

void CpuOps::softCap(TensorView inout, float cap, Stream &)
{
    checkFloatView(inout, 2);
    CHECK(cap > 0.0F);
    overRows(inout.shape[0], inout.shape[1],
             [&](std::int64_t row) { m_level.softCap(rowOf(inout, row), cap, static_cast<int>(inout.shape[1])); });
}

void CpuOps::clamp(TensorView inout, float limit, Stream &)
{
    checkFloatView(inout, 2);
    CHECK(limit > 0.0F);
    overRows(inout.shape[0], inout.shape[1], [&](std::int64_t row) {
        float *values = rowOf(inout, row);
        for (std::int64_t i = 0; i < inout.shape[1]; ++i)
            values[i] = std::clamp(values[i], -limit, limit);
    });
}

void CpuOps::route(TensorView logits, const RouterShape &shape, TensorView ids, TensorView weights, Stream &)
{
    checkRoute(logits, shape, ids, weights);
    m_routers.resize(static_cast<std::size_t>(m_pool.most()));
    overRows(logits.shape[0], logits.shape[1], [&](std::int64_t row, int worker) {
        m_routers[static_cast<std::size_t>(worker)].route(
            rowOf(logits, row), shape, ids.as<std::int32_t>() + row * ids.shape[1], rowOf(weights, row));
    });
}

void CpuOps::expertsGated(std::span<const PackedWeight *const> gateUp, Activation activation, TensorView x,
                          TensorView ids, std::span<const float *const> bias, TensorView out, Stream &)
{
    checkExperts(gateUp, ids, bias);
    checkGated(*gateUp[0]);
    checkExpertRows(*gateUp[0], x, ids.shape[0], out, ids.elements(), gateUp[0]->rows() / 2);
    m_experts.gated({gateUp, bias, ids}, activation, x, out);
}

void CpuOps::expertsCombine(std::span<const PackedWeight *const> down, TensorView inner, TensorView ids,
                            TensorView weights, std::span<const float *const> bias, TensorView inout, Stream &)
{
    checkExperts(down, ids, bias);
    checkFloatView(weights, 2);
    CHECK(weights.shape == ids.shape);
    checkExpertRows(*down[0], inner, ids.elements(), inout, ids.shape[0], down[0]->rows());
    m_experts.combine({down, bias, ids}, inner, weights, inout);
}

void CpuOps::rope(TensorView heads, std::span<const int> positions, const RopeTable &table, Stream &)
{
    checkRope(heads, positions, table);
    m_rope.prepare(positions, table);
    overRows(heads.shape[0], heads.shape[1] * heads.shape[2], [&](std::int64_t token) {
        for (std::int64_t head = 0; head < heads.shape[1]; ++head)
            m_rope.rotate(m_level, token, heads.as<float>() + token * heads.strides[0] + head * heads.strides[1]);
    });
}

void CpuOps::kvStore(TensorView k, TensorView v, const KvLayer &layer, std::span<const int> slots, Stream &)
{
    checkKvStore(k, v, layer, slots);
    const std::size_t keyBytes = layer.keyRowBytes();
    const std::size_t valueBytes = layer.valueRowBytes();
    overRows(rowCount(k), 2 * std::int64_t{layer.headDim}, [&](std::int64_t row) {
        const int slot = slots[static_cast<std::size_t>(row / layer.kvHeads)];
        const int block = slot / layer.blockTokens;
        const auto offset = static_cast<std::size_t>(slot % layer.blockTokens);
        const auto head = static_cast<int>(row % layer.kvHeads);
        m_level.storeKv(kvValuesOf(layer.keyType), rowOf(k, row), layer.headDim,
                        layer.keys(block, head) + offset * keyBytes);
        if (!layer.keysOnly)
            m_level.storeKv(kvValuesOf(layer.valueType), rowOf(v, row), layer.headDim,
                            layer.values(block, head) + offset * valueBytes);
    });
}

void CpuOps::pagedAttention(TensorView q, const KvLayer &layer, const PagedBatch &batch, const AttentionShape &shape,
                            TensorView out, Stream &)
{
    checkAttention(q, layer, batch, shape, out);
    m_attention.run(q, layer, batch, shape, out);
}

void CpuOps::gatherRows(TensorView x, std::span<const int> rows, TensorView out, Stream &)
{
    checkGather(x, rows, out);
    gatherHostRows(x, rows, out);
}

void CpuOps::copyBlock(const KvLayer &layer, int from, int to, Stream &)
{
    checkCopyBlock(layer, from, to);
    copyHostBlock(layer, from, to);
}

} // namespace kernels
