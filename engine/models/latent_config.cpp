// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/latent_config.h"

#include "engine/models/config_reader.h"
#include "engine/models/model_config.h"

namespace engine {

LatentConfig readLatent(const ConfigReader &reader)
{
    constexpr std::int64_t most = 1024; // of a head, and of the cached vector
    LatentConfig latent;
    latent.kvRank = static_cast<int>(reader.count("attention.kv_lora_rank", most));
    latent.queryRank = static_cast<int>(reader.countOrZero("attention.q_lora_rank", 1 << 20));
    latent.rotaryDim = static_cast<int>(reader.count("rope.dimension_count", most));
    // Files that give the sizes of the cache as key_length give those of a head under names of their own.
    const bool own = reader.has("attention.key_length_mla");
    const char *keyName = own ? "attention.key_length_mla" : "attention.key_length";
    const auto keys = static_cast<int>(reader.count(keyName, most));
    latent.valueDim =
        static_cast<int>(reader.count(own ? "attention.value_length_mla" : "attention.value_length", most));
    if (keys <= latent.rotaryDim)
        reader.refuse(keyName, std::to_string(keys),
                      "more than the " + std::to_string(latent.rotaryDim) + " elements that rotate");
    latent.plainDim = keys - latent.rotaryDim;
    if (latent.keyDim() > most)
        reader.refuse("attention.kv_lora_rank", std::to_string(latent.kvRank),
                      "at most " + std::to_string(most - latent.rotaryDim) + " beside the elements that rotate");
    return latent;
}

void addLatentTensors(const ModelConfig &config, int layer, std::vector<ExpectedTensor> &all)
{
    const LatentConfig &latent = config.latent;
    const std::int64_t hidden = config.hidden;
    const std::int64_t heads = config.layer[static_cast<std::size_t>(layer)].heads;
    const std::int64_t queries = heads * latent.queryDim();
    const auto add = [&](const char *part, std::vector<std::int64_t> shape, TensorUse use = TensorUse::Matrix) {
        all.push_back({layerTensor(layer, part), std::move(shape), use});
    };
    const auto bias = [&](const char *part, std::int64_t size) {
        all.push_back({layerTensor(layer, part, "bias"), {size}, TensorUse::Vector});
    };
    if (latent.queryRank > 0) {
        add("attn_q_a", {latent.queryRank, hidden});
        add("attn_q_a_norm", {latent.queryRank}, TensorUse::Vector);
        add("attn_q_b", {queries, latent.queryRank});
    } else {
        add("attn_q", {queries, hidden});
    }
    add("attn_kv_a_mqa", {latent.keyDim(), hidden});
    add("attn_kv_a_norm", {latent.kvRank}, TensorUse::Vector);
    if (latent.fused) {
        add("attn_kv_b", {heads * (latent.plainDim + latent.valueDim), latent.kvRank});
    } else {
        add("attn_k_b", {heads, latent.kvRank, latent.plainDim});
        add("attn_v_b", {heads, latent.valueDim, latent.kvRank});
    }
    add("attn_output", {hidden, heads * latent.valueDim});
    if (config.attentionBias) {
        if (latent.queryRank > 0)
            bias("attn_q_a", latent.queryRank);
        bias("attn_kv_a_mqa", latent.keyDim());
    }
    if (config.outputBias)
        bias("attn_output", hidden);
}

} // namespace engine
