// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/decoder_latent.h"

#include <cstring>

namespace engine {

using kernels::DType;
using kernels::TensorView;

namespace {

/// Elements [first, first + count) of every head [tokens, heads, n].
TensorView partOf(const TensorView &heads, std::int64_t first, std::int64_t count)
{
    TensorView view = heads;
    view.data = heads.data + first * static_cast<std::int64_t>(sizeof(float));
    view.shape[2] = count;
    return view;
}

void storeAs(DType type, float value, std::byte *target)
{
    if (type == DType::F32) {
        std::memcpy(target, &value, sizeof value);
        return;
    }
    const std::uint16_t bits = type == DType::F16 ? kernels::floatToHalf(value) : kernels::floatToBf16(value);
    std::memcpy(target, &bits, sizeof bits);
}

} // namespace

LatentAttention::LatentAttention(const ModelConfig &config, int layer, WeightLoader &loader, DecoderRope &rope)
    : m_ops(loader.ops())
    , m_rope(rope)
    , m_latent(config.latent)
    , m_layer(config.layer[static_cast<std::size_t>(layer)])
{
    m_shape.heads = m_layer.heads;
    m_shape.kvHeads = 1;
    m_shape.headDim = m_latent.keyDim();
    m_shape.scale = config.attentionScale;
    m_shape.valuesInKeys = true;
    m_shape.valueDim = m_latent.kvRank;
    if (m_latent.queryRank > 0) {
        m_queryDown = loader.matrix({layerTensor(layer, "attn_q_a")});
        m_queryDownBias = loader.vector(layerTensor(layer, "attn_q_a", "bias"));
        m_queryNorm = DecoderNorm(config, layerPrefix(layer, "attn_q_a_norm"), loader, m_latent.normEpsilon);
    }
    m_query = loader.matrix({layerTensor(layer, m_latent.queryRank > 0 ? "attn_q_b" : "attn_q")});
    m_keys = loader.matrix({layerTensor(layer, "attn_kv_a_mqa")});
    m_keysBias = loader.vector(layerTensor(layer, "attn_kv_a_mqa", "bias"));
    m_keyNorm = DecoderNorm(config, layerPrefix(layer, "attn_kv_a_norm"), loader, m_latent.normEpsilon);
    if (m_latent.fused)
        loadFusedHeads(layerTensor(layer, "attn_kv_b"), loader);
    else
        loadHeads(layer, loader);
    m_output = loader.matrix({layerTensor(layer, "attn_output")});
    m_outputBias = loader.vector(layerTensor(layer, "attn_output", "bias"));
}

void LatentAttention::keep(Weight weight, std::vector<const kernels::PackedWeight *> &heads)
{
    heads.push_back(weight.get());
    m_heads.push_back(std::move(weight));
}

void LatentAttention::loadHeads(int layer, WeightLoader &loader)
{
    const std::string keys = layerTensor(layer, "attn_k_b");
    const std::string values = layerTensor(layer, "attn_v_b");
    for (std::int64_t head = 0; head < m_layer.heads; ++head) {
        const kernels::WeightPart absorb = loader.rows(keys, head * m_latent.kvRank, m_latent.kvRank);
        const kernels::WeightPart value = loader.rows(values, head * m_latent.valueDim, m_latent.valueDim);
        keep(loader.pack({&absorb, 1}), m_absorb);
        keep(loader.pack({&value, 1}), m_values);
    }
    loader.release(keys);
    loader.release(values);
}

/// Rows of a head are its keys', then its values'. Values are packed as they are. Keys must be transposed, which
/// blocks along a row do not allow: a float matrix of the file keeps its type, blocks become F16, whose rounding is far
/// below theirs (the matrices are a two-hundredth of such a model), or F32 on the backend that is the truth.
void LatentAttention::loadFusedHeads(const std::string &name, WeightLoader &loader)
{
    const std::int64_t rank = m_latent.kvRank;
    const std::int64_t plain = m_latent.plainDim;
    const std::int64_t rows = plain + m_latent.valueDim;
    for (std::int64_t head = 0; head < m_layer.heads; ++head) {
        const kernels::WeightPart value = loader.rows(name, head * rows + plain, m_latent.valueDim);
        keep(loader.pack({&value, 1}), m_values);
    }
    const DType source = loader.rows(name, 0, 1).type;
    const bool quantized = kernels::info(source).quantized;
    const DType type = !quantized ? source : m_ops.keepsSource() ? DType::F32 : DType::F16;
    const std::vector<float> all = loader.values(name);
    const std::int64_t size = kernels::info(type).blockBytes;
    std::vector<std::byte> transposed(static_cast<std::size_t>(m_layer.heads * rank * plain * size));
    for (std::int64_t head = 0; head < m_layer.heads; ++head) {
        for (std::int64_t i = 0; i < plain; ++i) {
            const float *row = all.data() + (head * rows + i) * rank;
            for (std::int64_t r = 0; r < rank; ++r)
                storeAs(type, row[r], transposed.data() + ((head * rank + r) * plain + i) * size);
        }
        const kernels::WeightPart absorb{name + " (transposed)", type, rank, plain,
                                         transposed.data() + head * rank * plain * size};
        keep(loader.pack({&absorb, 1}), m_absorb);
    }
    if (m_ops.keepsSource())
        m_transposed = std::move(transposed); // the bytes stay where they are
}

TensorView LatentAttention::projectQueries(TensorView x, DecoderStep &step)
{
    const std::int64_t width = std::int64_t{m_layer.heads} * m_latent.queryDim();
    const TensorView queries = step.scratch.take(step.tokens, width);
    TensorView input = x;
    if (m_queryDown) {
        input = step.scratch.take(step.tokens, m_latent.queryRank);
        m_ops.linear(*m_queryDown, x, input, floats(m_queryDownBias), step.stream);
        m_queryNorm.apply(input, input, step.stream);
    }
    m_ops.linear(*m_query, input, queries, nullptr, step.stream);
    return headsView(queries, 0, m_layer.heads, m_latent.queryDim());
}

/// Query heads [tokens, heads, plain + rotary] to [tokens, heads, latent + rotary].
void LatentAttention::absorb(TensorView queries, TensorView absorbed, DecoderStep &step)
{
    const TensorView rotary = partOf(queries, m_latent.plainDim, m_latent.rotaryDim);
    m_rope.apply(m_layer, rotary, step);
    m_ops.copy(rotary, partOf(absorbed, m_latent.kvRank, m_latent.rotaryDim), step.stream);
    m_ops.linearHeads(m_absorb, partOf(queries, 0, m_latent.plainDim), partOf(absorbed, 0, m_latent.kvRank),
                      step.stream);
}

void LatentAttention::storeKeys(TensorView x, DecoderStep &step)
{
    const TensorView keys = step.scratch.take(step.tokens, m_latent.keyDim());
    m_ops.linear(*m_keys, x, keys, floats(m_keysBias), step.stream);
    const TensorView latent = kernels::columns(keys, 0, m_latent.kvRank);
    m_keyNorm.apply(latent, latent, step.stream);
    m_rope.apply(m_layer, headsView(keys, m_latent.kvRank, 1, m_latent.rotaryDim), step);
    m_ops.kvStore(headsView(keys, 0, 1, m_latent.keyDim()), TensorView(), step.kvLayer, step.slotIds, step.stream);
}

void LatentAttention::run(TensorView x, TensorView target, bool accumulate, DecoderStep &step)
{
    const int heads = m_layer.heads;
    const TensorView queries = projectQueries(x, step);
    const TensorView absorbed =
        headsView(step.scratch.take(step.tokens, std::int64_t{heads} * m_latent.keyDim()), 0, heads, m_latent.keyDim());
    const TensorView summed =
        headsView(step.scratch.take(step.tokens, std::int64_t{heads} * m_latent.kvRank), 0, heads, m_latent.kvRank);
    const TensorView attended = step.scratch.take(step.tokens, std::int64_t{heads} * m_latent.valueDim);
    absorb(queries, absorbed, step);
    storeKeys(x, step);
    m_ops.pagedAttention(absorbed, step.kvLayer, step.paged, m_shape, summed, step.stream);
    m_ops.linearHeads(m_values, summed, headsView(attended, 0, heads, m_latent.valueDim), step.stream);
    if (accumulate)
        m_ops.linearAdd(*m_output, attended, target, floats(m_outputBias), step.stream);
    else
        m_ops.linear(*m_output, attended, target, floats(m_outputBias), step.stream);
}

std::int64_t LatentAttention::scratchFloats(std::int64_t tokens) const
{
    const std::int64_t heads = m_layer.heads;
    return Scratch::sizeOf(tokens, heads * m_latent.queryDim()) + Scratch::sizeOf(tokens, m_latent.queryRank)
        + Scratch::sizeOf(tokens, heads * m_latent.keyDim()) + Scratch::sizeOf(tokens, heads * m_latent.kvRank)
        + Scratch::sizeOf(tokens, heads * m_latent.valueDim) + Scratch::sizeOf(tokens, m_latent.keyDim());
}

std::vector<const LatentAttention::Weight *> LatentAttention::weights() const
{
    std::vector<const Weight *> all{&m_query, &m_keys, &m_output};
    if (m_queryDown)
        all.push_back(&m_queryDown);
    for (const Weight &head : m_heads)
        all.push_back(&head);
    return all;
}

std::size_t LatentAttention::weightBytes() const
{
    std::size_t total = m_queryNorm.bytes() + m_keyNorm.bytes() + m_transposed.size() + m_queryDownBias.bytes()
        + m_keysBias.bytes() + m_outputBias.bytes();
    for (const Weight *each : weights())
        total += (*each)->residentBytes();
    return total;
}

std::size_t LatentAttention::bytesPerToken() const
{
    std::size_t total = 0;
    for (const Weight *each : weights())
        total += (*each)->bytesPerPass();
    return total;
}

} // namespace engine
