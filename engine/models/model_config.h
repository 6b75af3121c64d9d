// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/cache/kv_cache.h"
#include "engine/io/checkpoint.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace engine {

enum class RopeScaling { None, Linear, Yarn };

/// Rotary embedding as the checkpoint describes it; layers.h makes the frequency table from it.
struct RopeConfig {
    double base = 10000.0;
    int dimensions = 0;      ///< leading elements of a head that rotate, even
    bool interleaved = true; ///< pairs (2i, 2i + 1); else (i, i + dimensions / 2)
    RopeScaling scaling = RopeScaling::None;
    double factor = 1.0;          ///< of the context
    int originalContext = 0;      ///< yarn: tokens that the model was trained on before scaling
    double attentionFactor = 1.0; ///< yarn: multiplies the factor derived from `factor`
    double betaFast = 32.0;
    double betaSlow = 1.0;
    double extrapolation = 1.0; ///< yarn: share of the ramp that is applied
};

/// Experts of a mixture; none when `experts` is 0.
struct MoeConfig {
    int experts = 0;
    int expertsUsed = 0; ///< per token
};

/// What one layer has that its neighbours may not.
struct LayerConfig {
    int heads = 0;
    int kvHeads = 0;
    int intermediate = 0; ///< width of the feed-forward part
    int window = 0;       ///< keys seen by a query including itself; 0 = all
    bool rotates = true;  ///< applies rotary embedding
};

/// Sizes and constants of a network. Every value has been checked: positive, finite, divisible where it must be.
struct ModelConfig {
    std::string architecture; ///< general.architecture
    std::string name;         ///< general.name, else empty
    int layers = 0;
    int hidden = 0;
    int headDim = 0; ///< of queries, keys and values
    int vocab = 0;
    int contextLength = 0;
    float normEpsilon = 0.0F;
    RopeConfig rope;
    std::vector<LayerConfig> layer; ///< [layers]
    MoeConfig moe;

    kernels::Activation activation = kernels::Activation::Silu;
    float embeddingScale = 1.0F;   ///< multiplies the embedding rows
    float residualScale = 1.0F;    ///< multiplies what a branch adds to the residual stream
    float logitScale = 1.0F;       ///< multiplies the logits
    float attentionScale = 0.0F;   ///< of q·k; set to 1 / sqrt(headDim) where the file gives none
    float attentionSoftCap = 0.0F; ///< 0 = none
    float logitSoftCap = 0.0F;     ///< 0 = none

    bool tiedHead = false;       ///< the output matrix is the embedding
    bool attentionBias = false;  ///< q, k and v have biases
    bool outputBias = false;     ///< attn_output has a bias
    bool qkNorm = false;         ///< queries and keys are normalised per head
    std::int64_t parameters = 0; ///< elements of all weights in the checkpoint

    [[nodiscard]] int maxHeads() const;
    [[nodiscard]] int maxKvHeads() const;
    [[nodiscard]] int maxIntermediate() const;
    /// Sizes of the KV cache of the whole model on one rank.
    [[nodiscard]] KvShape kvShape(int blockTokens, kernels::DType dtype) const;
};

/// Reads and checks the keys that all families share: `<architecture>.block_count` and so on, and the vocabulary's
/// size from token_embd. Families add what they alone have.
/// \throws Error Refused naming the key, what was found and what is wanted
[[nodiscard]] ModelConfig readCommonConfig(const Checkpoint &checkpoint);

/// general.architecture. \throws Error Refused when it is absent or no string
[[nodiscard]] const std::string &architectureOf(const Checkpoint &checkpoint);

} // namespace engine
