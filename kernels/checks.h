// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/ops.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

/// What every backend on the host checks and shares. All checks throw Error Internal: shapes come from our own code.
namespace kernels {

void checkFloatView(const TensorView &view, int rank);
void checkEmbed(const PackedWeight &table, std::span<const int> ids, const TensorView &out);
void checkLinear(const PackedWeight &weight, const TensorView &x, const TensorView &out, std::int64_t outColumns);
void checkGated(const PackedWeight &gateUp);
void checkNorm(const TensorView &x, const TensorView &out);
void checkGatedAdd(const TensorView &x, const TensorView &gate, const TensorView &inout);
void checkRoute(const TensorView &logits, const RouterShape &shape, const TensorView &ids, const TensorView &weights);
/// As checkExperts, where the host cannot read the ids.
void checkExpertShapes(std::span<const PackedWeight *const> weights, const TensorView &ids,
                       std::span<const float *const> bias);
/// The ids [tokens, k] of experts among `weights`, of which all have the shape of the first.
void checkExperts(std::span<const PackedWeight *const> weights, const TensorView &ids,
                  std::span<const float *const> bias);
void checkLinearHeads(std::span<const PackedWeight *const> weights, const TensorView &x, const TensorView &out);
/// Head `head` of [tokens, heads, n] as [tokens, n].
[[nodiscard]] TensorView headOf(const TensorView &heads, std::int64_t head);
/// x [xRows, columns of the expert], out [outRows, outColumns].
void checkExpertRows(const PackedWeight &expert, const TensorView &x, std::int64_t xRows, const TensorView &out,
                     std::int64_t outRows, std::int64_t outColumns);
void checkSameShape(const TensorView &a, const TensorView &b);
void checkRope(const TensorView &heads, std::span<const int> positions, const RopeTable &table);
/// With `mayFill` rows may stand for nothing, here and below: Ops::capturesSteps().
void checkKvStore(const TensorView &k, const TensorView &v, const KvLayer &layer, std::span<const int> slots,
                  bool mayFill = false);
void checkAttention(const TensorView &q, const KvLayer &layer, const PagedBatch &batch, const AttentionShape &shape,
                    const TensorView &out, bool mayFill = false);
void checkGather(const TensorView &x, std::span<const int> rows, const TensorView &out);
void checkCopyBlock(const KvLayer &layer, int from, int to);

/// Elements of one output head.
[[nodiscard]] inline int valueDimOf(const AttentionShape &shape)
{
    return shape.valueDim > 0 ? shape.valueDim : shape.headDim;
}

/// Checks the parts of one pack call: at least one, equal columns, whole blocks, types that `pack` takes.
/// \throws Error Refused naming the tensor
void checkParts(std::span<const WeightPart> parts);

/// Float and quantized types that weights may have.
[[nodiscard]] bool isWeightType(DType type);

/// Row `index` of a rank-2 view, or of a rank-3 view whose two leading dimensions are counted through.
[[nodiscard]] float *rowOf(const TensorView &view, std::int64_t index);
/// Rows that rowOf counts.
[[nodiscard]] std::int64_t rowCount(const TensorView &view);

/// Memory that can be had without swapping, or the largest number where the system does not say.
[[nodiscard]] std::size_t availableHostBytes();
/// Zeroed memory straight from the system. \throws Error OutOfMemory naming bytes asked for and free
[[nodiscard]] std::unique_ptr<Buffer> allocateHost(std::size_t bytes);
/// A stream on which every operation is finished when its call returns.
[[nodiscard]] std::unique_ptr<Stream> makeHostStream();
/// Copies block `from` over `to` in one layer on the host.
void copyHostBlock(const KvLayer &layer, int from, int to);
/// Ops::route on the host: one algorithm for every backend there, so that their choices are the same. Keeps its memory
/// from token to token. Thread: one caller.
class HostRouter {
public:
    /// logits [experts] to ids and weights [expertsUsed]
    void route(const float *logits, const RouterShape &shape, std::int32_t *ids, float *weights);

private:
    void score(const float *logits, const RouterShape &shape);
    void choose(const float *logits, const RouterShape &shape);
    void maskGroups(const RouterShape &shape);

    std::vector<float> m_scores;      ///< [experts]
    std::vector<float> m_choice;      ///< [experts]: what the choice is made by
    std::vector<float> m_groupScores; ///< [groups]
    std::vector<std::uint8_t> m_kept; ///< [groups]
    std::vector<int> m_selected;      ///< [expertsUsed]
    std::vector<float> m_found;       ///< [expertsUsed], weights
};
/// out[i] = x[rows[i]] on the host.
void gatherHostRows(const TensorView &x, std::span<const int> rows, const TensorView &out);

} // namespace kernels
