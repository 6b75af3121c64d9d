// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/decoder_feed_forward.h"

#include "engine/models/decoder_moe.h"

namespace engine {

using kernels::TensorView;

GatedFeedForward::GatedFeedForward(const ModelConfig &config, int layer, WeightLoader &loader)
    : m_ops(loader.ops())
    , m_activation(config.activation)
    , m_gateUp(config.fusedGateUp ? loader.splitMatrix(layerTensor(layer, "ffn_up"), 2)
                                  : loader.matrix({layerTensor(layer, "ffn_gate"), layerTensor(layer, "ffn_up")}))
    , m_gateUpBias(config.fusedGateUp ? loader.vector(layerTensor(layer, "ffn_up", "bias"))
                                      : loader.stackedBias({layerTensor(layer, "ffn_gate", "bias"),
                                                            layerTensor(layer, "ffn_up", "bias")},
                                                           {m_gateUp->rows() / 2, m_gateUp->rows() / 2}))
    , m_down(loader.matrix({layerTensor(layer, "ffn_down")}))
    , m_downBias(loader.vector(layerTensor(layer, "ffn_down", "bias")))
{
}

void GatedFeedForward::run(TensorView x, TensorView target, bool accumulate, DecoderStep &step)
{
    const TensorView inner = step.scratch.take(step.tokens, m_down->columns());
    m_ops.linearGated(*m_gateUp, m_activation, x, inner, floats(m_gateUpBias), step.stream);
    if (accumulate)
        m_ops.linearAdd(*m_down, inner, target, floats(m_downBias), step.stream);
    else
        m_ops.linear(*m_down, inner, target, floats(m_downBias), step.stream);
}

std::int64_t GatedFeedForward::scratchFloats(std::int64_t tokens) const
{
    return Scratch::sizeOf(tokens, m_down->columns());
}

std::size_t GatedFeedForward::weightBytes() const
{
    return m_gateUp->residentBytes() + m_gateUpBias.bytes() + m_down->residentBytes() + m_downBias.bytes();
}

std::size_t GatedFeedForward::bytesPerToken() const
{
    return m_gateUp->bytesPerPass() + m_down->bytesPerPass();
}

PlainFeedForward::PlainFeedForward(const ModelConfig &config, int layer, WeightLoader &loader)
    : m_ops(loader.ops())
    , m_activation(config.activation)
    , m_up(loader.matrix({layerTensor(layer, "ffn_up")}))
    , m_upBias(loader.vector(layerTensor(layer, "ffn_up", "bias")))
    , m_down(loader.matrix({layerTensor(layer, "ffn_down")}))
    , m_downBias(loader.vector(layerTensor(layer, "ffn_down", "bias")))
{
}

void PlainFeedForward::run(TensorView x, TensorView target, bool accumulate, DecoderStep &step)
{
    const TensorView inner = step.scratch.take(step.tokens, m_up->rows());
    m_ops.linear(*m_up, x, inner, floats(m_upBias), step.stream);
    m_ops.activate(m_activation, inner, step.stream);
    if (accumulate)
        m_ops.linearAdd(*m_down, inner, target, floats(m_downBias), step.stream);
    else
        m_ops.linear(*m_down, inner, target, floats(m_downBias), step.stream);
}

std::int64_t PlainFeedForward::scratchFloats(std::int64_t tokens) const
{
    return Scratch::sizeOf(tokens, m_up->rows());
}

std::size_t PlainFeedForward::weightBytes() const
{
    return m_up->residentBytes() + m_upBias.bytes() + m_down->residentBytes() + m_downBias.bytes();
}

std::size_t PlainFeedForward::bytesPerToken() const
{
    return m_up->bytesPerPass() + m_down->bytesPerPass();
}

std::unique_ptr<DecoderBlock> makeFeedForward(const ModelConfig &config, int layer, WeightLoader &loader)
{
    if (config.layer[static_cast<std::size_t>(layer)].experts)
        return std::make_unique<MoeFeedForward>(config, layer, loader);
    if (!config.gated)
        return std::make_unique<PlainFeedForward>(config, layer, loader);
    return std::make_unique<GatedFeedForward>(config, layer, loader);
}

} // namespace engine
