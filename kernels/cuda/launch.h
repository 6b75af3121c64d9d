// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/dtype.h"
#include "kernels/ops.h"

#include <cstddef>
#include <cstdint>

struct CUstream_st;

/// The launchers of all CUDA kernels: raw views and a stream. All pointers are to device memory, activations are F32.
/// Nothing is allocated and nobody waits. \throws Error Internal when a launch is refused
namespace kernels::cuda {

using StreamHandle = CUstream_st *; ///< cudaStream_t

/// Rows of a rank-2 or rank-3 view, counted through both leading dimensions.
struct RowSpan {
    float *data = nullptr;
    int rows = 0;
    int columns = 0;
    int perGroup = 1; ///< rows of the middle dimension
    std::int64_t groupStride = 0;
    std::int64_t rowStride = 0;
};

// pointwise.cu
void launchZero(const RowSpan &out, StreamHandle stream);
void launchCopy(const RowSpan &x, const RowSpan &out, StreamHandle stream);
void launchAdd(const RowSpan &x, const RowSpan &inout, StreamHandle stream);
void launchGatedAdd(const RowSpan &x, const RowSpan &gate, const RowSpan &inout, StreamHandle stream);
void launchScale(const RowSpan &inout, float factor, StreamHandle stream);
void launchSoftCap(const RowSpan &inout, float cap, StreamHandle stream);
/// inout = inout, but not above limit nor below -limit; NaN stays.
void launchClamp(const RowSpan &inout, float limit, StreamHandle stream);
void launchActivate(Activation activation, const RowSpan &inout, StreamHandle stream);
/// out = act(gate) * up; products [rows, 2 * columns of out], gate before up.
void launchGate(Activation activation, const RowSpan &products, const RowSpan &out, StreamHandle stream);
/// out[i] = x[rows[i]]; rows [rows of out].
void launchGather(const RowSpan &x, const int *rows, const RowSpan &out, StreamHandle stream);

// norm.cu
void launchRmsNorm(const RowSpan &x, const float *weight, float epsilon, const RowSpan &out, StreamHandle stream);
void launchLayerNorm(const RowSpan &x, const float *weight, const float *bias, float epsilon, const RowSpan &out,
                     StreamHandle stream);

// rope.cu
struct RopeArguments {
    const int *positions = nullptr; ///< [groups of the rows]
    const double *turns = nullptr;  ///< [rotaryDim / 2], frequencies in whole turns per position
    int rotaryDim = 0;
    bool interleaved = true;
    float attentionFactor = 1.0F;
};
void launchRope(const RowSpan &heads, const RopeArguments &rope, StreamHandle stream);

// kv_store.cu
/// One plane of a layer: keys, or values. Row of (block, head, token): data + block * blockStride
/// + (head * blockTokens + token) * rowBytes.
struct KvPlane {
    std::byte *data = nullptr;
    DType type = DType::F16;
    int heads = 0;
    int blockTokens = 0;
    int headDim = 0;
    std::int64_t blockStride = 0;
    int rowBytes = 0;
};
/// x [tokens * heads] rows, slots [tokens], -1 for tokens that are stored nowhere.
void launchKvStore(const RowSpan &x, const int *slots, const KvPlane &plane, StreamHandle stream);
void launchCopyBytes(const std::byte *from, std::byte *to, std::size_t bytes, StreamHandle stream);

// quantize.cu
/// Activations for the tensor cores: rows of 16-bit numbers, each row divided by a power of two of its own so that its
/// largest number is about 1. With two terms a number is the sum of both.
struct CastRows {
    void *numbers = nullptr; ///< [rows, terms, columns] __half, __nv_bfloat16 or int8
    float *scales = nullptr; ///< [rows]
    int rows = 0;
    int columns = 0; ///< as x, filled up with zeros to a multiple of 128
    int terms = 1;
};
/// order: column k of the result is column order[k] of x; null = as they stand.
void launchCast(const RowSpan &x, const int *order, bool bf16, const CastRows &out, StreamHandle stream);
/// The same to int8, of one term: x / scale, never -128. fixedScale: of all rows; 0 = the largest number of a row /
/// 127. The scale of a row with an infinity or a NaN is NaN.
void launchRound(const RowSpan &x, const int *order, float fixedScale, const CastRows &out, StreamHandle stream);

// matmul.cu, products.cu
/// Weights of one part, its blocks split into planes: `body` holds the numbers, 16-byte aligned, `head` the scales.
struct WeightView {
    DType type = DType::F32;
    const std::byte *body = nullptr;
    const std::byte *head = nullptr;
    int rows = 0;
    int columns = 0;     ///< filled up with zeros to a multiple of 128
    float factor = 1.0F; ///< power of two that the weights are multiplied by to lie well within a half
    int scaleUnits = 1;  ///< W8A8: how many times 32 columns share a scale of `head`: 1, or all of a row
};
/// Where products go.
struct ProductTarget {
    RowSpan out;
    const float *bias = nullptr; ///< [rows of the weight] or null
    bool add = false;            ///< out += instead of out =
};
/// Whether launchProducts knows the type.
[[nodiscard]] bool isMatrixType(DType type);
/// Whether activations are cast to bfloat16 (in two terms) for weights of this type, or to half.
[[nodiscard]] bool wantsBf16(DType type);
/// Whether they are rounded to int8.
[[nodiscard]] bool wantsInt8(DType type);
/// out = x Wᵀ for weights other than F32.
void launchProducts(const WeightView &weight, const CastRows &x, const ProductTarget &target, StreamHandle stream);
/// Rows [firstRow, firstRow + rows) of the weight times its factor, as halves [rows, columns]; not for F32, BF16 and
/// W8A8.
void launchExpand(const WeightView &weight, int firstRow, int rows, std::uint16_t *out, StreamHandle stream);
/// What follows a product of cast rows with weights times `factor`: sums [rows of x, columns of the target] become
/// outputs.
void launchFinishProducts(const float *sums, float factor, const CastRows &x, const ProductTarget &target,
                          StreamHandle stream);
/// out = x Wᵀ for F32 weights.
void launchFloatProducts(const WeightView &weight, const RowSpan &x, const ProductTarget &target, StreamHandle stream);
/// Columns [0, columns of out) of out[i] = row ids[i] - firstRow of the weight, where that is one of its rows.
void launchEmbed(const WeightView &weight, const int *ids, int firstRow, const int *order, const RowSpan &out,
                 StreamHandle stream);

// attention.cu
/// A tile of 16 rows of work: row r is query token firstToken + r / groupHeads, head r % groupHeads of a group.
struct AttentionTile {
    int sequence = 0;
    int firstRow = 0; ///< among the rows of the sequence, tokens x heads of a group
};
struct AttentionArguments {
    RowSpan q;   ///< rows tokens * heads of headDim
    RowSpan out; ///< the same
    KvPlane keys;
    KvPlane values;
    const AttentionTile *tiles = nullptr;
    int tileCount = 0;
    const int *queryStarts = nullptr;    ///< [sequences + 1]
    const int *contextLengths = nullptr; ///< [sequences], 0: its rows of `out` become 0
    const int *blockTables = nullptr;    ///< [sequences, maxBlocks]
    int maxBlocks = 0;
    int groupHeads = 0; ///< query heads of one key head
    float scale = 0.0F;
    int window = 0;
    float softCap = 0.0F;
    const float *sinks = nullptr; ///< [heads] or null
    int splits = 1;               ///< of 256 keys, at least as many as the longest context needs
    float *partials = nullptr;    ///< [splits, rows of q, headDim + 2]; null: a tile walks through its splits by itself
    /// Values are the first elements of keys (latent attention): `values` is the plane of keys with the headDim of
    /// values, which is that of `out` and `partials` too.
    bool valuesInKeys = false;
    /// Tokens of a draft tree, at most 64 of a sequence: bit j of [query tokens] says whether the token sees token j of
    /// its sequence's step. Each sees itself and the tokens on the way to it, all of them earlier; null = a line.
    const std::uint64_t *treeMasks = nullptr;
};
[[nodiscard]] bool isAttentionType(DType type);
/// Largest head dimension.
constexpr int mostHeadDim = 256;
/// The same with valuesInKeys, of keys and of values.
constexpr int mostLatentHeadDim = 576;
constexpr int mostLatentValueDim = 512;
constexpr int attentionTileRows = 16;
constexpr int attentionSplitKeys = 256;
void launchAttention(const AttentionArguments &attention, StreamHandle stream);

} // namespace kernels::cuda
