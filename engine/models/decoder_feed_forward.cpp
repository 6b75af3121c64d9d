// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/decoder_feed_forward.h"

namespace engine {

using kernels::TensorView;

GatedFeedForward::GatedFeedForward(const ModelConfig &config, int layer, WeightLoader &loader)
    : m_ops(loader.ops())
    , m_activation(config.activation)
    , m_gateUp(config.fusedGateUp ? loader.splitMatrix(layerTensor(layer, "ffn_up"), 2)
                                  : loader.matrix({layerTensor(layer, "ffn_gate"), layerTensor(layer, "ffn_up")}))
    , m_down(loader.matrix({layerTensor(layer, "ffn_down")}))
    , m_downBias(loader.vector(layerTensor(layer, "ffn_down", "bias")))
{
}

void GatedFeedForward::run(TensorView x, TensorView target, bool accumulate, DecoderStep &step)
{
    const TensorView inner = step.scratch.take(step.tokens, m_down->columns());
    m_ops.linearGated(*m_gateUp, m_activation, x, inner, nullptr, step.stream);
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
    return m_gateUp->residentBytes() + m_down->residentBytes() + m_downBias.bytes();
}

std::size_t GatedFeedForward::bytesPerToken() const
{
    return m_gateUp->bytesPerPass() + m_down->bytesPerPass();
}

std::unique_ptr<DecoderBlock> makeFeedForward(const ModelConfig &config, int layer, WeightLoader &loader)
{
    return std::make_unique<GatedFeedForward>(config, layer, loader);
}

} // namespace engine
