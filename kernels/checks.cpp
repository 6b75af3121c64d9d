// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/checks.h"

#include <algorithm>
#include <cstring>

namespace kernels {

namespace {

void checkKvLayer(const KvLayer &layer)
{
    CHECK(layer.data != nullptr && isKvType(layer.keyType) && isKvType(layer.valueType));
    CHECK(!layer.keysOnly || layer.keyType == layer.valueType);
    CHECK(layer.blocks > 0 && layer.kvHeads > 0 && layer.headDim > 0);
    CHECK(layer.bytesToNextBlock() >= layer.blockBytes());
    CHECK(layer.blockTokens >= 8 && (layer.blockTokens & (layer.blockTokens - 1)) == 0);
}

std::string describe(const WeightPart &part)
{
    return "tensor '" + part.name + "'";
}

} // namespace

void checkFloatView(const TensorView &view, int rank)
{
    CHECK(view.rank == rank && view.dtype == DType::F32);
    CHECK(view.elements() == 0 || view.data != nullptr);
    CHECK(view.strides[static_cast<std::size_t>(rank - 1)] == 1 || view.shape[static_cast<std::size_t>(rank - 1)] <= 1);
}

void checkEmbed(const PackedWeight &table, std::span<const int> ids, const TensorView &out)
{
    checkFloatView(out, 2);
    CHECK(out.shape[0] == static_cast<std::int64_t>(ids.size()) && out.shape[1] == table.columns());
    for (const int id : ids)
        CHECK(id >= 0 && id < table.rows());
}

void checkLinear(const PackedWeight &weight, const TensorView &x, const TensorView &out, std::int64_t outColumns)
{
    checkFloatView(x, 2);
    checkFloatView(out, 2);
    CHECK(x.shape[1] == weight.columns());
    CHECK(out.shape[0] == x.shape[0] && out.shape[1] == outColumns);
}

void checkGated(const PackedWeight &gateUp)
{
    CHECK(gateUp.partRows().size() == 2 && gateUp.partRows()[0] == gateUp.partRows()[1]);
}

void checkNorm(const TensorView &x, const TensorView &out)
{
    CHECK(x.rank == 2 || x.rank == 3);
    checkFloatView(x, x.rank);
    checkSameShape(x, out);
}

void checkGatedAdd(const TensorView &x, const TensorView &gate, const TensorView &inout)
{
    checkFloatView(x, 2);
    checkSameShape(x, inout);
    checkFloatView(gate, 2);
    CHECK(gate.shape[0] == x.shape[0] && gate.shape[1] == 1);
}

void checkRoute(const TensorView &logits, const RouterShape &shape, const TensorView &ids, const TensorView &weights)
{
    checkFloatView(logits, 2);
    checkFloatView(weights, 2);
    CHECK(logits.shape[1] == shape.experts && shape.expertsUsed >= 1 && shape.expertsUsed <= shape.experts);
    CHECK(shape.groups >= 1 && shape.experts % shape.groups == 0);
    CHECK(shape.groupsUsed >= 1 && shape.groupsUsed <= shape.groups);
    CHECK(ids.rank == 2 && ids.dtype == DType::I32 && ids.strides[0] == ids.shape[1]);
    CHECK(ids.shape == weights.shape && ids.shape[0] == logits.shape[0] && ids.shape[1] == shape.expertsUsed);
}

void checkExpertShapes(std::span<const PackedWeight *const> weights, const TensorView &ids,
                       std::span<const float *const> bias)
{
    CHECK(!weights.empty() && (bias.empty() || bias.size() == weights.size()));
    for (const PackedWeight *weight : weights)
        CHECK(weight->rows() == weights[0]->rows() && weight->columns() == weights[0]->columns());
    CHECK(ids.rank == 2 && ids.dtype == DType::I32 && ids.strides[0] == ids.shape[1]);
}

void checkExperts(std::span<const PackedWeight *const> weights, const TensorView &ids,
                  std::span<const float *const> bias)
{
    checkExpertShapes(weights, ids, bias);
    for (std::int64_t i = 0; i < ids.elements(); ++i)
        CHECK(ids.as<std::int32_t>()[i] >= 0 && ids.as<std::int32_t>()[i] < static_cast<std::int64_t>(weights.size()));
}

void checkLinearHeads(std::span<const PackedWeight *const> weights, const TensorView &x, const TensorView &out)
{
    checkFloatView(x, 3);
    checkFloatView(out, 3);
    CHECK(!weights.empty() && static_cast<std::int64_t>(weights.size()) == x.shape[1]);
    CHECK(out.shape[0] == x.shape[0] && out.shape[1] == x.shape[1]);
    for (const PackedWeight *weight : weights)
        CHECK(weight->columns() == x.shape[2] && weight->rows() == out.shape[2]);
}

TensorView headOf(const TensorView &heads, std::int64_t head)
{
    TensorView view = heads;
    view.data = heads.data + head * heads.strides[1] * static_cast<std::int64_t>(sizeof(float));
    view.rank = 2;
    view.shape = {heads.shape[0], heads.shape[2], 0, 0};
    view.strides = {heads.strides[0], 1, 0, 0};
    return view;
}

void checkExpertRows(const PackedWeight &expert, const TensorView &x, std::int64_t xRows, const TensorView &out,
                     std::int64_t outRows, std::int64_t outColumns)
{
    checkFloatView(x, 2);
    checkFloatView(out, 2);
    CHECK(x.shape[0] == xRows && x.shape[1] == expert.columns());
    CHECK(out.shape[0] == outRows && out.shape[1] == outColumns);
}

void checkSameShape(const TensorView &a, const TensorView &b)
{
    checkFloatView(a, a.rank);
    checkFloatView(b, a.rank);
    CHECK(a.shape == b.shape);
}

void checkRope(const TensorView &heads, std::span<const int> positions, const RopeTable &table)
{
    checkFloatView(heads, 3);
    CHECK(heads.shape[0] == static_cast<std::int64_t>(positions.size()));
    CHECK(table.rotaryDim % 2 == 0 && table.rotaryDim >= 0 && table.rotaryDim <= heads.shape[2]);
    CHECK(table.inverseFrequencies.size() * 2 == static_cast<std::size_t>(table.rotaryDim));
}

void checkKvStore(const TensorView &k, const TensorView &v, const KvLayer &layer, std::span<const int> slots,
                  bool mayFill)
{
    checkFloatView(k, 3);
    if (v.rank != 0)
        checkSameShape(k, v);
    checkKvLayer(layer);
    CHECK(layer.keysOnly == (v.rank == 0));
    CHECK(k.shape[0] == static_cast<std::int64_t>(slots.size()));
    CHECK(k.shape[1] == layer.kvHeads && k.shape[2] == layer.headDim);
    const std::int64_t capacity = std::int64_t{layer.blocks} * layer.blockTokens;
    for (const int slot : slots)
        CHECK((slot >= 0 || (mayFill && slot == -1)) && slot < capacity);
}

void checkAttention(const TensorView &q, const KvLayer &layer, const PagedBatch &batch, const AttentionShape &shape,
                    const TensorView &out, bool mayFill)
{
    checkFloatView(q, 3);
    checkFloatView(out, 3);
    checkKvLayer(layer);
    CHECK(layer.keysOnly == shape.valuesInKeys);
    CHECK(shape.valuesInKeys ? shape.valueDim <= shape.headDim
                             : shape.valueDim == 0 || shape.valueDim == shape.headDim);
    CHECK(out.shape[0] == q.shape[0] && out.shape[1] == q.shape[1] && out.shape[2] == valueDimOf(shape));
    CHECK(shape.heads > 0 && shape.kvHeads > 0 && shape.heads % shape.kvHeads == 0);
    CHECK(q.shape[1] == shape.heads && q.shape[2] == shape.headDim);
    CHECK(layer.kvHeads == shape.kvHeads && layer.headDim == shape.headDim);
    CHECK(layer.blockTokens == batch.blockTokens);
    const std::size_t sequences = batch.contextLengths.size();
    CHECK(batch.queryStarts.size() == sequences + 1 && batch.queryStarts[0] == 0);
    CHECK(batch.queryStarts[sequences] == q.shape[0]);
    CHECK(batch.blockTables.size() == sequences * static_cast<std::size_t>(batch.maxBlocks));
    for (std::size_t s = 0; s < sequences; ++s) {
        const int queries = batch.queryStarts[s + 1] - batch.queryStarts[s];
        if (mayFill && batch.contextLengths[s] == 0)
            continue;
        const int blocks = (batch.contextLengths[s] + batch.blockTokens - 1) / batch.blockTokens;
        CHECK(queries >= 0 && queries <= batch.contextLengths[s] && blocks <= batch.maxBlocks);
        const std::size_t first = s * static_cast<std::size_t>(batch.maxBlocks);
        const int unseen = shape.window > 0 ? std::max(0, batch.contextLengths[s] - queries + 1 - shape.window) : 0;
        for (int b = unseen / batch.blockTokens; b < blocks; ++b) {
            const int block = batch.blockTables[first + static_cast<std::size_t>(b)];
            CHECK(block >= 0 && block < layer.blocks);
        }
    }
}

void checkGather(const TensorView &x, std::span<const int> rows, const TensorView &out)
{
    checkFloatView(x, 2);
    checkFloatView(out, 2);
    CHECK(out.shape[0] == static_cast<std::int64_t>(rows.size()) && out.shape[1] == x.shape[1]);
    for (const int row : rows)
        CHECK(row >= 0 && row < x.shape[0]);
}

void checkCopyBlock(const KvLayer &layer, int from, int to)
{
    checkKvLayer(layer);
    CHECK(from != to && from >= 0 && to >= 0);
    CHECK(from < layer.blocks && to < layer.blocks);
}

bool isWeightType(DType type)
{
    switch (type) {
    case DType::F64:
    case DType::I8:
    case DType::I16:
    case DType::I32:
    case DType::I64:
    case DType::E4M3:
        return false;
    default:
        return true;
    }
}

void checkParts(std::span<const WeightPart> parts)
{
    CHECK(!parts.empty());
    for (const WeightPart &part : parts) {
        if (!isWeightType(part.type))
            throw Error(ErrorCode::Refused,
                        describe(part) + " has type " + std::string(info(part.type).name)
                            + ", which no matrix product takes");
        if (part.columns != parts[0].columns)
            throw Error(ErrorCode::Refused,
                        describe(part) + " has " + std::to_string(part.columns) + " columns, " + describe(parts[0])
                            + " packed with it has " + std::to_string(parts[0].columns));
        if (part.columns <= 0 || part.rows <= 0 || part.columns % info(part.type).blockElements != 0)
            throw Error(ErrorCode::Refused,
                        describe(part) + " has " + std::to_string(part.rows) + " rows of "
                            + std::to_string(part.columns) + " columns, wanted whole blocks of "
                            + std::to_string(info(part.type).blockElements));
        CHECK(part.data != nullptr);
    }
}

std::int64_t rowCount(const TensorView &view)
{
    return view.rank == 3 ? view.shape[0] * view.shape[1] : view.shape[0];
}

float *rowOf(const TensorView &view, std::int64_t index)
{
    if (view.rank == 3)
        return view.as<float>() + index / view.shape[1] * view.strides[0] + index % view.shape[1] * view.strides[1];
    return view.as<float>() + index * view.strides[0];
}

void copyHostBlock(const KvLayer &layer, int from, int to)
{
    std::memcpy(layer.keys(to, 0), layer.keys(from, 0), layer.blockBytes());
}

void gatherHostRows(const TensorView &x, std::span<const int> rows, const TensorView &out)
{
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const float *source = rowOf(x, rows[i]);
        std::copy(source, source + x.shape[1], rowOf(out, static_cast<std::int64_t>(i)));
    }
}

} // namespace kernels
