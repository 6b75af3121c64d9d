// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/decoder_attention.h"

#include "engine/models/decoder_latent.h"

namespace engine {

using kernels::TensorView;

GroupedAttention::GroupedAttention(const ModelConfig &config, int layer, WeightLoader &loader, DecoderRope &rope)
    : m_ops(loader.ops())
    , m_rope(rope)
    , m_layer(config.layer[static_cast<std::size_t>(layer)])
    , m_queryKeyNorm(config.queryKeyNorm)
    , m_normAfterRope(config.normAfterRope)
    , m_limit(config.queryKeyValueLimit)
{
    m_shape.heads = m_layer.heads;
    m_shape.kvHeads = m_layer.kvHeads;
    m_shape.headDim = config.headDim;
    m_shape.scale = config.attentionScale;
    m_shape.window = m_layer.window;
    m_shape.softCap = config.attentionSoftCap;
    const auto name = [layer](const char *part, const char *suffix = "weight") {
        return layerTensor(layer, part, suffix);
    };
    if (config.fusedQkv) {
        m_qkv = loader.matrix({name("attn_qkv")});
        m_qkvBias = loader.vector(name("attn_qkv", "bias"));
    } else {
        m_qkv = loader.matrix({name("attn_q"), name("attn_k"), name("attn_v")});
        m_qkvBias = loader.stackedBias({name("attn_q", "bias"), name("attn_k", "bias"), name("attn_v", "bias")},
                                       {queryWidth(), kvWidth(), kvWidth()});
    }
    if (m_queryKeyNorm != QueryKeyNorm::None) {
        m_queryNorm = DecoderNorm(config, layerPrefix(layer, "attn_q_norm"), loader);
        m_keyNorm = DecoderNorm(config, layerPrefix(layer, "attn_k_norm"), loader);
    }
    if (config.sinks)
        m_sinks = loader.vector(name("attn_sinks"));
    m_shape.sinks = floats(m_sinks);
    m_output = loader.matrix({name("attn_output")});
    m_outputBias = loader.vector(name("attn_output", "bias"));
}

void GroupedAttention::normQueriesAndKeys(TensorView qkv, kernels::Stream &stream) const
{
    const TensorView queries = headsView(qkv, 0, m_layer.heads, m_shape.headDim);
    const TensorView keys = headsView(qkv, queryWidth(), m_layer.kvHeads, m_shape.headDim);
    switch (m_queryKeyNorm) {
    case QueryKeyNorm::None:
        break;
    case QueryKeyNorm::Head:
        m_queryNorm.apply(queries, queries, stream);
        m_keyNorm.apply(keys, keys, stream);
        break;
    case QueryKeyNorm::OwnHead:
        m_queryNorm.applyToEachHead(queries, stream);
        m_keyNorm.applyToEachHead(keys, stream);
        break;
    case QueryKeyNorm::All: {
        const TensorView allQueries = kernels::columns(qkv, 0, queryWidth());
        const TensorView allKeys = kernels::columns(qkv, queryWidth(), kvWidth());
        m_queryNorm.apply(allQueries, allQueries, stream);
        m_keyNorm.apply(allKeys, allKeys, stream);
        break;
    }
    }
}

void GroupedAttention::run(TensorView x, TensorView target, bool accumulate, DecoderStep &step)
{
    const TensorView qkv = step.scratch.take(step.tokens, qkvWidth());
    const TensorView attended = step.scratch.take(step.tokens, queryWidth());
    const TensorView queries = headsView(qkv, 0, m_layer.heads, m_shape.headDim);
    const TensorView keys = headsView(qkv, queryWidth(), m_layer.kvHeads, m_shape.headDim);
    const TensorView values = headsView(qkv, queryWidth() + kvWidth(), m_layer.kvHeads, m_shape.headDim);

    m_ops.linear(*m_qkv, x, qkv, floats(m_qkvBias), step.stream);
    if (!m_normAfterRope)
        normQueriesAndKeys(qkv, step.stream);
    if (m_limit > 0.0F)
        m_ops.clamp(qkv, m_limit, step.stream);
    m_rope.apply(m_layer, queries, step);
    m_rope.apply(m_layer, keys, step);
    if (m_normAfterRope)
        normQueriesAndKeys(qkv, step.stream);
    m_ops.kvStore(keys, values, step.kvLayer, step.slotIds, step.stream);
    m_ops.pagedAttention(queries, step.kvLayer, step.paged, m_shape,
                         headsView(attended, 0, m_layer.heads, m_shape.headDim), step.stream);
    if (accumulate)
        m_ops.linearAdd(*m_output, attended, target, floats(m_outputBias), step.stream);
    else
        m_ops.linear(*m_output, attended, target, floats(m_outputBias), step.stream);
}

std::int64_t GroupedAttention::scratchFloats(std::int64_t tokens) const
{
    return Scratch::sizeOf(tokens, qkvWidth()) + Scratch::sizeOf(tokens, queryWidth());
}

std::size_t GroupedAttention::weightBytes() const
{
    return m_qkv->residentBytes() + m_qkvBias.bytes() + m_queryNorm.bytes() + m_keyNorm.bytes() + m_sinks.bytes()
        + m_output->residentBytes() + m_outputBias.bytes();
}

std::size_t GroupedAttention::bytesPerToken() const
{
    return m_qkv->bytesPerPass() + m_output->bytesPerPass();
}

std::unique_ptr<DecoderBlock> makeAttention(const ModelConfig &config, int layer, WeightLoader &loader,
                                            DecoderRope &rope)
{
    if (config.latent.used())
        return std::make_unique<LatentAttention>(config, layer, loader, rope);
    return std::make_unique<GroupedAttention>(config, layer, loader, rope);
}

} // namespace engine
