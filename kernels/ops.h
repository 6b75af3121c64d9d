// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/error.h"
#include "kernels/kv_layer.h"
#include "kernels/packed_weight.h"
#include "kernels/sampling.h"
#include "kernels/tensor_view.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kernels {

/// A shape in which steps come again: their numbers of rows, and what else decides which operations they are made of.
struct StepShape {
    int rows = 0;
    int maxBlocks = 0; ///< PagedBatch::maxBlocks
    int variant = 0;   ///< of the rotary embedding
    bool operator==(const StepShape &) const = default;
};

/// The arrays of the host that operations of a step are given, as bytes; their sizes follow from the shape.
using StepInputs = std::span<const std::span<const std::byte>>;

/// An order of work on one device. On the CPU every operation is finished when its call returns.
class Stream {
public:
    virtual ~Stream() = default;
    virtual void synchronize() = 0;
    /// While a stream plans, operations on it check what they are given, note the memory they will need besides, and
    /// compute nothing; when planning ends, that memory is made. So the largest step, planned once, keeps every later
    /// one from allocating, and what a device cannot do is refused before a step. Returns false, and nothing changes,
    /// where operations need no such memory: then they compute as ever. \throws Error OutOfMemory
    [[nodiscard]] virtual bool plan(bool) { return false; }
    [[nodiscard]] virtual bool plans() const { return false; }

    /// work() queues the operations of a step. A stream that captures steps runs the first of a shape as it is, and
    /// queues later ones as one graph without calling work(): only the contents of `inputs` may differ between steps of
    /// one shape. What comes out is the same, bit for bit. \pre Ops::capturesSteps()
    virtual void runStep(const StepShape &, StepInputs, const std::function<void()> &work) { work(); }
    /// Whether it does so; no longer once the device has refused.
    [[nodiscard]] virtual bool capturesSteps() const { return false; }
    /// Steps of any shape are captured anew: memory that they use was replaced. After a refusal, tries again.
    virtual void forgetSteps() { }
    /// Why the device refused to capture, one sentence; told once, then empty.
    [[nodiscard]] virtual std::string takeCaptureFault() { return {}; }
};

/// Memory of one device, freed with the object; zeroed when made.
class Buffer {
public:
    virtual ~Buffer() = default;
    [[nodiscard]] virtual std::byte *data() = 0;
    [[nodiscard]] virtual std::size_t bytes() const = 0;
};

/// SwigluClamped (gpt-oss) exists in gated operations only: (min(up, 7), not below -7, + 1) x g x sigmoid(1.702 g) with
/// g = min(gate, 7). Source: OpenAI 2025, gpt-oss model card, and transformers modeling_gpt_oss.py.
enum class Activation { Silu, GeluTanh, GeluErf, Relu, SwigluClamped };

/// Rotary embedding of one layer kind. Pairs are (2i, 2i+1) when interleaved (GGUF llama), else (i, i + rotaryDim/2).
struct RopeTable {
    int rotaryDim = 0; ///< leading elements of a head that rotate
    bool interleaved = true;
    float attentionFactor = 1.0F;           ///< multiplies cos and sin (yarn)
    std::vector<double> inverseFrequencies; ///< [rotaryDim / 2], radians per position
};

/// What attention needs to know of a layer.
struct AttentionShape {
    int heads = 0;
    int kvHeads = 0; ///< divides heads
    int headDim = 0; ///< of queries and keys, at most 1024
    float scale = 0.0F;
    int window = 0;               ///< keys seen by a query including itself; 0 = all
    float softCap = 0.0F;         ///< 0 = none
    const float *sinks = nullptr; ///< [heads] or null
    /// The cache holds one plane, the keys; values are the first `valueDim` elements of a key (latent attention).
    /// Source: DeepSeek-AI 2024, arXiv:2405.04434, section 2.1, with the value projection absorbed.
    bool valuesInKeys = false;
    int valueDim = 0; ///< of outputs; 0 = headDim, which is the only choice without valuesInKeys
};

/// How a router picks experts for a token and weighs them.
struct RouterShape {
    enum class Scores {
        Softmax,         ///< softmax over all experts
        Sigmoid,         ///< of each logit by itself
        SelectedSoftmax, ///< selection by logits, weights by a softmax over those selected
    };
    enum class GroupRule {
        Max,    ///< a group counts as its best expert
        TopTwo, ///< as the sum of its two best
    };

    int experts = 0;
    int expertsUsed = 0; ///< 1..experts
    Scores scores = Scores::Softmax;
    bool normalise = false; ///< weights / (their sum + 1e-20)
    float scale = 1.0F;     ///< multiplies the weights last
    int groups = 1;         ///< divides experts; neighbours form a group
    int groupsUsed = 1;     ///< experts of other groups count 0 in the selection
    GroupRule groupRule = GroupRule::Max;
    const float *selectionBias = nullptr; ///< [experts] or null; added to scores for the selection only
};

/// Where the tokens of a step belong. Token t of sequence s is query row queryStarts[s] + t; its absolute
/// position is contextLengths[s] - (queryStarts[s + 1] - queryStarts[s]) + t, and it sees keys up to itself.
struct PagedBatch {
    std::span<const int> queryStarts; ///< [sequences + 1]
    /// [sequences], tokens in the cache including this step's. Where Ops::capturesSteps(), 0 for rows that only fill
    /// the step up to its shape: their outputs become 0, and nothing is read for them.
    std::span<const int> contextLengths;
    /// [sequences, maxBlocks], block numbers; where no query of the step sees a block through the window, anything
    std::span<const int> blockTables;
    int maxBlocks = 0;
    int blockTokens = 0; ///< tokens of one block, a power of two, 8..128
};

/// The operations a model is made of, on one device. All tensors are views on that device. Activations are F32.
///
/// Batch invariance: every output row of linear, attention and norm is the same sequence of float operations
/// whatever stands beside it in the batch, however prompts are chunked and wherever blocks lie.
/// Thread: one caller at a time. \throws Error; a wrong shape is Error Internal.
class Ops {
public:
    virtual ~Ops() = default;

    [[nodiscard]] virtual std::string_view name() const = 0; ///< "reference", "cpu", "cuda"
    [[nodiscard]] virtual std::string_view isa()
        const = 0; ///< "scalar", "avx2", "avx512", "avx512-vnni", "amx", "simt"
    [[nodiscard]] virtual int threads() const = 0;
    /// Changes the number of worker threads; between steps only. Results do not depend on it.
    virtual void setThreads(int threads) = 0;
    /// Of threads(), those that take part from the next operation on; the others sleep. Results do not depend on it.
    /// \pre 1 <= used <= threads()
    virtual void useThreads(int used);
    [[nodiscard]] virtual int usedThreads() const { return threads(); }
    /// False when an operation on the weights packed so far depends on how many rows stand beside a row, which only
    /// OpsOptions::deterministic can allow.
    [[nodiscard]] virtual bool deterministic() const { return true; }

    [[nodiscard]] virtual std::unique_ptr<Stream> makeStream() = 0;
    /// Whether its streams can capture steps. Operations around others that want to see each call do not.
    [[nodiscard]] virtual bool capturesSteps() const { return false; }
    /// \throws Error OutOfMemory naming bytes asked for
    [[nodiscard]] virtual std::unique_ptr<Buffer> allocate(std::size_t bytes) = 0;
    /// Memory of the host that transfer() is fast with. \throws Error OutOfMemory
    [[nodiscard]] virtual std::unique_ptr<Buffer> allocateStaging(std::size_t bytes);
    /// Bytes free on a device with memory of its own, which the host reads and writes by transfer() alone; nothing
    /// where the device computes in the host's memory.
    [[nodiscard]] virtual std::optional<std::size_t> freeOwnMemory() const { return std::nullopt; }
    /// Copies bytes of the host or the device to either, in the order of the stream: what is read must stay as it is,
    /// and what is written be left alone, until the stream was synchronised.
    virtual void transfer(const void *from, void *to, std::size_t bytes, Stream &stream);

    /// Whether `pack` and `linear` take weights of this type.
    [[nodiscard]] virtual bool supportsWeight(DType type) const = 0;
    /// Whether keys and values may be stored as `type` on this device.
    [[nodiscard]] virtual bool supportsKv(DType type) const { return isKvType(type); }
    /// Packs parts stacked along the rows; all have the same columns, types may differ. The part data must stay
    /// valid only during the call unless keepsSource() is true. \throws Error Refused for an unsupported type
    [[nodiscard]] virtual std::unique_ptr<PackedWeight> pack(std::span<const WeightPart> parts) = 0;
    /// True when packed weights go on reading the source bytes (reference backend).
    [[nodiscard]] virtual bool keepsSource() const = 0;

    /// out[i] = row ids[i] of the table. out [tokens, columns]
    virtual void embed(const PackedWeight &table, std::span<const int> ids, TensorView out, Stream &stream) = 0;
    /// out = x Wᵀ (+ bias). x [tokens, columns], out [tokens, rows], bias [rows] or null
    virtual void linear(const PackedWeight &weight, TensorView x, TensorView out, const float *bias,
                        Stream &stream) = 0;
    /// inout += x Wᵀ (+ bias), the residual branch. inout [tokens, rows]
    virtual void linearAdd(const PackedWeight &weight, TensorView x, TensorView inout, const float *bias,
                           Stream &stream) = 0;
    /// Head h of out = head h of x times the transposed matrix of head h, in one job. x [tokens, heads, columns], out
    /// [tokens, heads, rows], weights [heads], all of one shape
    virtual void linearHeads(std::span<const PackedWeight *const> weights, TensorView x, TensorView out,
                             Stream &stream) = 0;
    /// out = act(x Gᵀ + b) * (x Uᵀ + c) with gate and up packed as two parts of equal rows. out [tokens, rows / 2],
    /// bias [rows], b before c, or null
    virtual void linearGated(const PackedWeight &gateUp, Activation activation, TensorView x, TensorView out,
                             const float *bias, Stream &stream) = 0;
    /// inout = act(inout), [tokens, n]. \pre activation is not SwigluClamped
    virtual void activate(Activation activation, TensorView inout, Stream &stream) = 0;
    /// out = x / rms(x) * weight, per row of the last dimension. x, out [tokens, n] or [tokens, heads, n], weight [n]
    /// F32, null = 1
    virtual void rmsNorm(TensorView x, const float *weight, float epsilon, TensorView out, Stream &stream) = 0;
    /// out = (x - mean) / sqrt(variance + epsilon) * weight + bias, per row as rmsNorm. weight null = 1, bias null = 0
    virtual void layerNorm(TensorView x, const float *weight, const float *bias, float epsilon, TensorView out,
                           Stream &stream) = 0;
    /// out = 0. [tokens, n]
    virtual void zero(TensorView out, Stream &stream) = 0;
    /// out = x. [tokens, n] or [tokens, heads, n], not overlapping
    virtual void copy(TensorView x, TensorView out, Stream &stream) = 0;
    /// inout += x. [tokens, n]
    virtual void add(TensorView x, TensorView inout, Stream &stream) = 0;
    /// inout += sigmoid(gate) * x. x, inout [tokens, n], gate [tokens, 1]
    virtual void gatedAdd(TensorView x, TensorView gate, TensorView inout, Stream &stream) = 0;
    /// inout *= factor. [tokens, n]
    virtual void scale(TensorView inout, float factor, Stream &stream) = 0;
    /// inout = cap * tanh(inout / cap). [tokens, n], cap > 0
    virtual void softCap(TensorView inout, float cap, Stream &stream) = 0;
    /// inout = inout, but not above limit nor below -limit. [tokens, n], limit > 0
    virtual void clamp(TensorView inout, float limit, Stream &stream) = 0;
    /// Rotates in place. heads [tokens, heads, headDim], positions [tokens]
    virtual void rope(TensorView heads, std::span<const int> positions, const RopeTable &table, Stream &stream) = 0;
    /// Picks experts from logits [tokens, experts]: ids [tokens, expertsUsed] I32, contiguous, and weights [tokens,
    /// expertsUsed] F32, both by falling weight, the lower id among equal ones. Arithmetic in float32, as transformers.
    virtual void route(TensorView logits, const RouterShape &shape, TensorView ids, TensorView weights,
                       Stream &stream) = 0;
    /// Row t * k + r of out = act(x_t G_eᵀ) * (x_t U_eᵀ) with e = ids[t, r]. gateUp [experts] packed as for
    /// linearGated, all of one shape; x [tokens, n], ids [tokens, k] I32, out [tokens * k, inner]; bias [experts] of [2
    /// * inner], or empty.
    virtual void expertsGated(std::span<const PackedWeight *const> gateUp, Activation activation, TensorView x,
                              TensorView ids, std::span<const float *const> bias, TensorView out, Stream &stream) = 0;
    /// inout_t += sum over r of weights[t, r] * (inner_{t * k + r} D_eᵀ + bias_e), one product after the other by
    /// ascending expert. down [experts], inner [tokens * k, inner], inout [tokens, n]; bias [experts] of [n], or empty.
    virtual void expertsCombine(std::span<const PackedWeight *const> down, TensorView inner, TensorView ids,
                                TensorView weights, std::span<const float *const> bias, TensorView inout,
                                Stream &stream) = 0;
    /// Writes k and v [tokens, kvHeads, headDim] to their slots (block * blockTokens + offset) of one layer, each row
    /// in the layer's types. An empty v (rank 0) for a layer that holds keys only. Where capturesSteps(), slot -1 for
    /// rows that are stored nowhere.
    virtual void kvStore(TensorView k, TensorView v, const KvLayer &layer, std::span<const int> slots,
                         Stream &stream) = 0;
    /// Causal attention over the paged cache, tiled with online softmax; never builds the score matrix.
    /// q [tokens, heads, headDim], out [tokens, heads, valueDim].
    virtual void pagedAttention(TensorView q, const KvLayer &layer, const PagedBatch &batch,
                                const AttentionShape &shape, TensorView out, Stream &stream) = 0;
    /// out[i] = x[rows[i]]. x [tokens, n], out [rows, n]
    virtual void gatherRows(TensorView x, std::span<const int> rows, TensorView out, Stream &stream) = 0;
    /// Copies block `from` of a layer over block `to`.
    virtual void copyBlock(const KvLayer &layer, int from, int to, Stream &stream) = 0;
    /// Whether the device draws tokens itself; where the host reads logits, it does.
    [[nodiscard]] virtual bool samples() const { return false; }
    /// A token for each row of the batch from logits [.., vocab]. The results are in the host's memory once the stream
    /// was synchronised: sampled [rows] and, with alternatives wanted, alternatives [rows, batch.alternatives], best
    /// first, -1 where a row wants no more or there are none. \pre samples()
    virtual void sample(TensorView logits, const SamplingBatch &batch, SampledRow *sampled, Alternative *alternatives,
                        Stream &stream);
};

/// Choices for a backend; `reference` and `isa` are for the CPU.
struct OpsOptions {
    std::string device = "cpu"; ///< cpu, or simt: CUDA kernels in an emulator on the CPU, in test builds
    bool reference = false;
    int threads = 0;          ///< 0 = cores
    std::string isa = "auto"; ///< auto, scalar, avx2, avx512, avx512-vnni, amx
    /// False allows products whose rounding depends on how many rows meet a matrix, where they are measured to be
    /// faster: weights in floats with bfloat16 activations.
    bool deterministic = true;
};

/// Adds to `notes`, unless it is null, why something asked for is not in force.
/// \throws Error NoDevice when the machine lacks the level asked for, InvalidArgument for an unknown name
[[nodiscard]] std::unique_ptr<Ops> makeOps(const OpsOptions &options, std::vector<std::string> *notes = nullptr);

/// Instruction levels that this machine (CPU and operating system) grants, lowest first.
[[nodiscard]] std::vector<std::string> availableIsaLevels();

} // namespace kernels
