// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/decoder_tensors.h"

namespace engine {
namespace {

/// Adds tensors of one layer.
class LayerList {
public:
    LayerList(int layer, std::vector<ExpectedTensor> &all)
        : m_layer(layer)
        , m_all(all)
    {
    }

    void matrix(const char *part, std::int64_t rows, std::int64_t columns)
    {
        m_all.push_back({layerTensor(m_layer, part), {rows, columns}});
    }
    void vector(const char *part, std::vector<std::int64_t> shape, const char *suffix = "weight")
    {
        m_all.push_back({layerTensor(m_layer, part, suffix), std::move(shape), TensorUse::Vector});
    }
    void bias(const char *part, std::int64_t size) { vector(part, {size}, "bias"); }

private:
    int m_layer;
    std::vector<ExpectedTensor> &m_all;
};

const LayerConfig &layerOf(const ModelConfig &config, int layer)
{
    return config.layer[static_cast<std::size_t>(layer)];
}

/// Norms of every head, in one tensor or in one for each.
void addHeadNorms(const char *part, std::int64_t heads, const ModelConfig &config, LayerList &list)
{
    if (!config.separateHeadNorms)
        return list.vector(part, {heads, config.headDim});
    for (std::int64_t head = 0; head < heads; ++head)
        list.vector((part + ("." + std::to_string(head))).c_str(), {config.headDim});
}

void addQueryKeyNorms(const ModelConfig &config, const LayerConfig &layer, LayerList &list)
{
    const std::int64_t headDim = config.headDim;
    switch (config.queryKeyNorm) {
    case QueryKeyNorm::None:
        break;
    case QueryKeyNorm::Head:
        for (const char *part : {"attn_q_norm", "attn_k_norm"}) {
            list.vector(part, {headDim});
            if (config.queryKeyNormBias)
                list.bias(part, headDim);
        }
        break;
    case QueryKeyNorm::OwnHead:
        addHeadNorms("attn_q_norm", layer.heads, config, list);
        addHeadNorms("attn_k_norm", layer.kvHeads, config, list);
        break;
    case QueryKeyNorm::All:
        list.vector("attn_q_norm", {layer.heads * headDim});
        list.vector("attn_k_norm", {layer.kvHeads * headDim});
        break;
    }
}

} // namespace

void addOuterTensors(const ModelConfig &config, std::vector<ExpectedTensor> &all)
{
    const std::int64_t hidden = config.hidden;
    const std::int64_t pairs = config.rope.dimensions / 2;
    all.push_back({"token_embd.weight", {config.vocab, hidden}});
    if (config.positionTable)
        all.push_back({"position_embd.weight", {config.contextLength, hidden}});
    all.push_back({"output_norm.weight", {hidden}, TensorUse::Vector});
    if (config.normBias)
        all.push_back({"output_norm.bias", {hidden}, TensorUse::Vector});
    all.push_back({"output.weight", {config.vocab, hidden}, TensorUse::Matrix, config.tiedHead});
    if (config.headBias)
        all.push_back({"output.bias", {config.vocab}, TensorUse::Vector});
    if (config.rope.scaling != RopeScaling::LongRope) {
        all.push_back({"rope_freqs.weight", {pairs}, TensorUse::Vector, true});
    } else if (config.rope.shortFactors.empty()) {
        all.push_back({"rope_factors_short.weight", {pairs}, TensorUse::Vector});
        all.push_back({"rope_factors_long.weight", {pairs}, TensorUse::Vector});
    }
}

void addNormTensors(const ModelConfig &config, int layer, std::vector<ExpectedTensor> &all)
{
    LayerList list(layer, all);
    const auto norm = [&](const char *part) {
        list.vector(part, {config.hidden});
        if (config.normBias)
            list.bias(part, config.hidden);
    };
    const bool before = config.placement != NormPlacement::After;
    if (before)
        norm("attn_norm");
    if (before && config.feedForwardNorm)
        norm(config.feedForwardNormName.c_str());
    if (config.placement != NormPlacement::Before) {
        norm("post_attention_norm");
        norm("post_ffw_norm");
    }
}

void addAttentionTensors(const ModelConfig &config, int layer, std::vector<ExpectedTensor> &all)
{
    LayerList list(layer, all);
    const LayerConfig &sizes = layerOf(config, layer);
    const std::int64_t hidden = config.hidden;
    const std::int64_t queries = std::int64_t{sizes.heads} * config.headDim;
    const std::int64_t keys = std::int64_t{sizes.kvHeads} * config.headDim;
    const auto linear = [&](const char *part, std::int64_t rows) {
        list.matrix(part, rows, hidden);
        if (config.attentionBias)
            list.bias(part, rows);
    };
    if (config.fusedQkv) {
        linear("attn_qkv", queries + 2 * keys);
    } else {
        linear("attn_q", queries);
        linear("attn_k", keys);
        linear("attn_v", keys);
    }
    addQueryKeyNorms(config, sizes, list);
    if (config.sinks)
        list.vector("attn_sinks", {sizes.heads});
    list.matrix("attn_output", hidden, queries);
    if (config.outputBias)
        list.bias("attn_output", hidden);
}

void addFeedForwardTensors(const ModelConfig &config, int layer, std::vector<ExpectedTensor> &all)
{
    LayerList list(layer, all);
    const std::int64_t hidden = config.hidden;
    const std::int64_t inner = layerOf(config, layer).intermediate;
    const auto linear = [&](const char *part, std::int64_t rows, std::int64_t columns) {
        list.matrix(part, rows, columns);
        if (config.feedForwardBias)
            list.bias(part, rows);
    };
    if (config.gated && !config.fusedGateUp)
        linear("ffn_gate", inner, hidden);
    linear("ffn_up", config.gated && config.fusedGateUp ? 2 * inner : inner, hidden);
    linear("ffn_down", hidden, inner);
}

std::vector<ExpectedTensor> decoderTensors(const ModelConfig &config)
{
    std::vector<ExpectedTensor> all;
    addOuterTensors(config, all);
    for (int i = 0; i < config.layers; ++i) {
        addNormTensors(config, i, all);
        if (config.latent.used())
            addLatentTensors(config, i, all);
        else
            addAttentionTensors(config, i, all);
        if (layerOf(config, i).experts)
            addMoeTensors(config, i, all);
        else
            addFeedForwardTensors(config, i, all);
    }
    return all;
}

} // namespace engine
