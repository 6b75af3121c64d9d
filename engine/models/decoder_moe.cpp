// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/decoder_moe.h"

#include <algorithm>

namespace engine {

using kernels::TensorView;

MoeFeedForward::MoeFeedForward(const ModelConfig &config, int layer, WeightLoader &loader)
    : m_ops(loader.ops())
    , m_moe(config.moe)
    , m_hidden(config.hidden)
    , m_activation(config.activation)
    , m_router(config.moe.router)
    , m_routerWeight(loader.matrix({layerTensor(layer, "ffn_gate_inp")}))
    , m_routerBias(loader.vector(layerTensor(layer, "ffn_gate_inp", "bias")))
    , m_selectionBias(loader.vector(layerTensor(layer, "exp_probs_b", "bias")))
{
    m_router.selectionBias = floats(m_selectionBias);
    loadExperts(layer, loader);
    if (m_moe.expertBias)
        loadBiases(layer, loader);
    if (m_moe.sharedIntermediate > 0) {
        m_sharedGateUp = loader.matrix({layerTensor(layer, "ffn_gate_shexp"), layerTensor(layer, "ffn_up_shexp")});
        m_sharedDown = loader.matrix({layerTensor(layer, "ffn_down_shexp")});
    }
    if (m_moe.sharedGate)
        m_sharedWeight = loader.matrix({layerTensor(layer, "ffn_gate_inp_shexp")});
}

void MoeFeedForward::loadExperts(int layer, WeightLoader &loader)
{
    const auto keep = [this](std::vector<Weight> loaded, std::vector<const kernels::PackedWeight *> &list) {
        for (Weight &each : loaded) {
            list.push_back(each.get());
            m_experts.push_back(std::move(each));
        }
    };
    if (m_moe.form == ExpertForm::Merged)
        keep(loader.experts(layer, {"ffn_gate_up"}, m_moe.experts, 2), m_gateUp);
    else
        keep(loader.experts(layer, {"ffn_gate", "ffn_up"}, m_moe.experts), m_gateUp);
    keep(loader.experts(layer, {"ffn_down"}, m_moe.experts), m_down);
}

void MoeFeedForward::loadBiases(int layer, WeightLoader &loader)
{
    const std::vector<float> gate = loader.values(layerTensor(layer, "ffn_gate_exps", "bias"));
    const std::vector<float> up = loader.values(layerTensor(layer, "ffn_up_exps", "bias"));
    m_downBias = loader.vector(layerTensor(layer, "ffn_down_exps", "bias"));
    std::vector<float> both = loader.values(layerTensor(layer, "ffn_gate_up_exps", "bias"));
    for (std::int64_t e = 0; e < m_moe.experts && m_moe.form != ExpertForm::Merged; ++e) {
        const auto first = e * m_moe.intermediate;
        both.insert(both.end(), gate.begin() + first, gate.begin() + first + m_moe.intermediate);
        both.insert(both.end(), up.begin() + first, up.begin() + first + m_moe.intermediate);
    }
    m_gateUpBias = loader.upload(both);
    for (std::int64_t e = 0; e < m_moe.experts; ++e) {
        m_gateUpBiases.push_back(floats(m_gateUpBias) + e * 2 * m_moe.intermediate);
        m_downBiases.push_back(floats(m_downBias) + e * m_hidden);
    }
}

void MoeFeedForward::run(TensorView x, TensorView target, bool accumulate, DecoderStep &step)
{
    const std::int64_t used = m_moe.expertsUsed;
    const TensorView logits = step.scratch.take(step.tokens, m_moe.experts);
    const TensorView ids = step.scratch.take(step.tokens, used, kernels::DType::I32);
    const TensorView weights = step.scratch.take(step.tokens, used);
    const TensorView inner = step.scratch.take(step.tokens * used, m_moe.intermediate);
    m_ops.linear(*m_routerWeight, x, logits, floats(m_routerBias), step.stream);
    m_ops.route(logits, m_router, ids, weights, step.stream);
    if (step.onRoute != nullptr && !step.stream.plans())
        reportChoice(ids, weights, step);
    m_ops.expertsGated(m_gateUp, m_activation, x, ids, m_gateUpBiases, inner, step.stream);
    if (!accumulate)
        m_ops.zero(target, step.stream);
    m_ops.expertsCombine(m_down, inner, ids, weights, m_downBiases, target, step.stream);
    if (m_sharedGateUp)
        addShared(x, target, step);
}

void MoeFeedForward::reportChoice(TensorView ids, TensorView weights, DecoderStep &step)
{
    const auto count = static_cast<std::size_t>(ids.elements());
    std::vector<std::int32_t> chosen(count);
    std::vector<float> weighed(count);
    m_ops.transfer(ids.data, chosen.data(), count * sizeof(std::int32_t), step.stream);
    m_ops.transfer(weights.data, weighed.data(), count * sizeof(float), step.stream);
    step.stream.synchronize();
    (*step.onRoute)({step.layer, m_moe.expertsUsed, chosen, weighed});
}

void MoeFeedForward::addShared(TensorView x, TensorView target, DecoderStep &step)
{
    const TensorView inner = step.scratch.take(step.tokens, m_moe.sharedIntermediate);
    m_ops.linearGated(*m_sharedGateUp, m_activation, x, inner, nullptr, step.stream);
    if (!m_sharedWeight) {
        m_ops.linearAdd(*m_sharedDown, inner, target, nullptr, step.stream);
        return;
    }
    const TensorView output = step.scratch.take(step.tokens, m_hidden);
    const TensorView gate = step.scratch.take(step.tokens, 1);
    m_ops.linear(*m_sharedDown, inner, output, nullptr, step.stream);
    m_ops.linear(*m_sharedWeight, x, gate, nullptr, step.stream);
    m_ops.gatedAdd(output, gate, target, step.stream);
}

std::int64_t MoeFeedForward::scratchFloats(std::int64_t tokens) const
{
    std::int64_t floats = Scratch::sizeOf(tokens, m_moe.experts) + 2 * Scratch::sizeOf(tokens, m_moe.expertsUsed)
        + Scratch::sizeOf(tokens * m_moe.expertsUsed, m_moe.intermediate);
    if (m_sharedGateUp)
        floats += Scratch::sizeOf(tokens, m_moe.sharedIntermediate);
    if (m_sharedWeight)
        floats += Scratch::sizeOf(tokens, m_hidden) + Scratch::sizeOf(tokens, 1);
    return floats;
}

std::size_t MoeFeedForward::weightBytes() const
{
    std::size_t total = m_routerWeight->residentBytes() + m_routerBias.bytes() + m_selectionBias.bytes()
        + m_gateUpBias.bytes() + m_downBias.bytes();
    for (const Weight &expert : m_experts)
        total += expert->residentBytes();
    for (const Weight *shared : {&m_sharedGateUp, &m_sharedDown, &m_sharedWeight})
        total += *shared ? (*shared)->residentBytes() : 0;
    return total;
}

std::size_t MoeFeedForward::bytesPerToken() const
{
    std::size_t experts = 0;
    for (const Weight &expert : m_experts)
        experts += expert->bytesPerPass();
    std::size_t total = m_routerWeight->bytesPerPass()
        + experts / static_cast<std::size_t>(m_moe.experts) * static_cast<std::size_t>(m_moe.expertsUsed);
    for (const Weight *shared : {&m_sharedGateUp, &m_sharedDown, &m_sharedWeight})
        total += *shared ? (*shared)->bytesPerPass() : 0;
    return total;
}

} // namespace engine
