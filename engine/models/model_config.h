// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/cache/kv_cache.h"
#include "engine/io/checkpoint.h"
#include "engine/models/latent_config.h"
#include "engine/models/moe_config.h"
#include "engine/models/rope_config.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

enum class NormKind {
    Rms,
    Layer, ///< mean and variance
};

/// Where a branch (attention or feed-forward) is normed.
enum class NormPlacement {
    Before, ///< its input
    After,  ///< its output
    Both,
};

enum class QueryKeyNorm {
    None,
    Head,    ///< each head by itself, all with one weight [headDim]
    OwnHead, ///< each head by itself with a weight of its own, [heads, headDim]
    All,     ///< all heads of a token together, [heads * headDim]
};

/// What one layer has that its neighbours may not.
struct LayerConfig {
    int heads = 0;
    int kvHeads = 0;
    int intermediate = 0;   ///< width of the feed-forward part
    int window = 0;         ///< keys seen by a query including itself; 0 = all
    bool rotates = true;    ///< applies rotary embedding
    bool localRope = false; ///< by ModelConfig::localRope
    bool experts = false;   ///< the feed-forward part is a mixture of experts
};

/// Sizes and constants of a network. Every value has been checked: positive, finite, divisible where it must be.
struct ModelConfig {
    std::string architecture; ///< general.architecture
    std::string name;         ///< general.name, else empty
    int layers = 0;
    int hidden = 0;
    int headDim = 0; ///< of queries, keys and values; latent attention: of queries
    int vocab = 0;
    int contextLength = 0;
    float normEpsilon = 0.0F;
    NormKind norm = NormKind::Rms;
    NormPlacement placement = NormPlacement::Before;
    bool parallel = false;         ///< both branches of a layer read the same state, their results are added together
    float normWeightOffset = 0.0F; ///< added to the weights of all norms when they are loaded
    RopeConfig rope;
    RopeConfig localRope;           ///< of layers that say so
    std::vector<LayerConfig> layer; ///< [layers]
    MoeConfig moe;
    LatentConfig latent; ///< in place of grouped heads

    kernels::Activation activation = kernels::Activation::Silu;
    bool gated = true;               ///< act(gate) * up; else act(up)
    float embeddingScale = 1.0F;     ///< multiplies the embedding rows
    float residualScale = 1.0F;      ///< multiplies what a branch adds to the residual stream
    float logitScale = 1.0F;         ///< multiplies the logits
    float attentionScale = 0.0F;     ///< of q·k; set to 1 / sqrt(headDim) where the file gives none
    bool sinks = false;              ///< every head has a sink that takes a share of the softmax
    float attentionSoftCap = 0.0F;   ///< 0 = none
    float queryKeyValueLimit = 0.0F; ///< of queries, keys and values before they rotate, both ways; 0 = none
    float logitSoftCap = 0.0F;       ///< 0 = none

    bool tiedHead = false;                        ///< the output matrix is the embedding
    bool positionTable = false;                   ///< embeddings of positions are added to those of tokens
    bool headBias = false;                        ///< the output matrix has a bias
    bool fusedQkv = false;                        ///< the file holds q, k and v as one matrix attn_qkv
    bool fusedGateUp = false;                     ///< the file's ffn_up holds gate, then up
    bool attentionBias = false;                   ///< q, k and v have biases, or what they are made from
    bool outputBias = false;                      ///< attn_output has a bias
    bool feedForwardBias = false;                 ///< ffn_gate, ffn_up and ffn_down have biases
    bool normBias = false;                        ///< all norms but those of queries and keys have biases
    bool feedForwardNorm = true;                  ///< with `parallel`: the feed-forward part has a norm of its own
    std::string feedForwardNormName = "ffn_norm"; ///< the norm before the feed-forward part
    QueryKeyNorm queryKeyNorm = QueryKeyNorm::None;
    bool queryKeyNormBias = false;  ///< those norms have biases
    bool separateHeadNorms = false; ///< with OwnHead: one tensor for each head, "attn_q_norm.3"
    bool normAfterRope = false;     ///< queries and keys are normed after they were rotated
    std::int64_t parameters = 0;    ///< elements of all weights in the checkpoint

    [[nodiscard]] bool windowed() const { return maxWindow() > 0; }
    [[nodiscard]] bool hasLocalRope() const;
    [[nodiscard]] int maxWindow() const;
    [[nodiscard]] RopeVariants ropeVariants() const { return engine::ropeVariants(rope); }
    [[nodiscard]] int maxHeads() const;
    [[nodiscard]] int maxKvHeads() const;
    [[nodiscard]] int maxIntermediate() const;
    /// Tokens that the layers with a window need to keep of a context of `maxModelLen` tokens: the largest window that
    /// is shorter; 0 when none is.
    [[nodiscard]] int keptWindow(int maxModelLen) const;
    /// Sizes of the KV cache of the whole model on one rank. Layers with a window of at most `window` tokens hold no
    /// more than that.
    [[nodiscard]] KvShape kvShape(int blockTokens, const KvTypes &types, int window = 0) const;
};

/// What a family says where the file does not.
struct FamilyDefaults {
    bool interleavedRope = false;
    NormKind norm = NormKind::Rms;
    int windowPattern = 0; ///< every n-th layer sees all keys; 0: all layers have the window
    int window = 0;        ///< 0 = none
    bool latent = false;   ///< attention is latent
    kernels::Activation activation = kernels::Activation::Silu;
};

/// A function by the name that configurations have for it.
struct NamedActivation {
    std::string_view name;
    kernels::Activation activation;
};
[[nodiscard]] std::span<const NamedActivation> namedActivations();

/// Reads and checks the keys that all families share: `<architecture>.block_count` and so on, the vocabulary's size
/// from token_embd, and which biases and fused matrices the file has. Families add what they alone have.
/// \throws Error Refused naming the key, what was found and what is wanted
[[nodiscard]] ModelConfig readCommonConfig(const Checkpoint &checkpoint, const FamilyDefaults &defaults = {});

/// Gives layers that have a window a rotary embedding of that base, with the scaling of `rope.scaling_swa.*` if any.
void useLocalRope(ModelConfig &config, const ConfigReader &reader, double base);

/// Lets only layers that have a window rotate, unless no layer has one or `rope.layers` says which do.
void rotateWindowedOnly(const Checkpoint &checkpoint, ModelConfig &config);

/// For families without experts. \throws Error Refused naming the key
void refuseExperts(const ModelConfig &config);

/// For families that do not scale their logits. \throws Error Refused naming the key unless it is absent or 1
void refuseLogitScale(const Checkpoint &checkpoint, const ModelConfig &config);

/// general.architecture. \throws Error Refused when it is absent or no string
[[nodiscard]] const std::string &architectureOf(const Checkpoint &checkpoint);

} // namespace engine
