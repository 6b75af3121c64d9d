// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/models/tensor_names.h"

#include <vector>

namespace engine {

class ConfigReader;
struct ModelConfig;

/// Attention over latent vectors: the cache holds, for a token, one vector that keys and values of all heads are made
/// from, and one rotated key part that all heads share.
/// Source: DeepSeek-AI 2024, arXiv:2405.04434, section 2.1.
struct LatentConfig {
    int kvRank = 0;           ///< elements of the latent vector; 0: attention is not latent
    int queryRank = 0;        ///< elements that queries are made from; 0: they come from the state itself
    int plainDim = 0;         ///< elements of a query or key head that do not rotate
    int rotaryDim = 0;        ///< and those that do
    int valueDim = 0;         ///< elements of a value head
    float normEpsilon = 0.0F; ///< of the norms on what queries, keys and values are made from
    bool fused = false; ///< the file has attn_kv_b, key and value rows of each head, in place of attn_k_b and attn_v_b

    [[nodiscard]] bool used() const { return kvRank > 0; }
    [[nodiscard]] int queryDim() const { return plainDim + rotaryDim; }
    [[nodiscard]] int keyDim() const { return kvRank + rotaryDim; } ///< of the cache
};

/// \throws Error Refused naming the key, what was found and what is wanted
[[nodiscard]] LatentConfig readLatent(const ConfigReader &reader);

/// Adds the tensors of a layer's attention.
void addLatentTensors(const ModelConfig &config, int layer, std::vector<ExpectedTensor> &all);

} // namespace engine
