// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/decoder_model.h"

#include "engine/cache/kv_cache.h"
#include "engine/models/decoder_attention.h"
#include "engine/models/decoder_feed_forward.h"

#include <algorithm>
#include <array>
#include <utility>

namespace engine {

using kernels::TensorView;

DecoderModel::DecoderModel(ModelConfig config, WeightLoader &loader)
    : m_config(std::move(config))
    , m_ops(loader.ops())
    , m_rope(m_config, loader)
    , m_embedding(loader.matrix({"token_embd.weight"}))
{
    if (m_config.positionTable)
        m_positions = loader.matrix({"position_embd.weight"});
    m_layers.resize(static_cast<std::size_t>(m_config.layers));
    for (int i = 0; i < m_config.layers; ++i)
        loadLayer(i, loader);
    m_outputNorm = DecoderNorm(m_config, "output_norm", loader);
    if (!m_config.tiedHead)
        m_head = loader.matrix({"output.weight"});
    if (m_config.headBias)
        m_headBias = loader.vector("output.bias");
}

void DecoderModel::loadLayer(int number, WeightLoader &loader)
{
    const auto norm = [&](const std::string &part) {
        return DecoderNorm(m_config, layerPrefix(number, part.c_str()), loader);
    };
    Layer &layer = m_layers[static_cast<std::size_t>(number)];
    const bool before = m_config.placement != NormPlacement::After;
    const bool after = m_config.placement != NormPlacement::Before;
    if (before)
        layer.attention.norm = norm("attn_norm");
    layer.attention.block = makeAttention(m_config, number, loader, m_rope);
    if (after)
        layer.attention.postNorm = norm("post_attention_norm");
    if (before && m_config.feedForwardNorm)
        layer.feedForward.norm = norm(m_config.feedForwardNormName);
    layer.feedForward.block = makeFeedForward(m_config, number, loader);
    if (after)
        layer.feedForward.postNorm = norm("post_ffw_norm");
}

bool DecoderModel::addsDirectly() const
{
    return m_config.placement == NormPlacement::Before && m_config.residualScale == 1.0F && !m_config.parallel;
}

std::int64_t DecoderModel::scratchFloats(int maxTokens, int maxLogitRows) const
{
    std::int64_t most = Scratch::sizeOf(maxLogitRows, m_config.hidden);
    for (const Layer &layer : m_layers)
        most = std::max(
            {most, layer.attention.block->scratchFloats(maxTokens), layer.feedForward.block->scratchFloats(maxTokens)});
    return most;
}

std::size_t DecoderModel::workspaceBytes(int maxTokens, int maxLogitRows) const
{
    const std::int64_t states = (addsDirectly() ? 2 : 3) * std::int64_t{m_config.hidden} * maxTokens;
    return static_cast<std::size_t>(states + scratchFloats(maxTokens, maxLogitRows)) * sizeof(float);
}

void DecoderModel::reserve(int maxTokens, int maxLogitRows)
{
    CHECK(maxTokens >= 1 && maxLogitRows >= 1);
    if (maxTokens <= m_work.maxTokens && maxLogitRows <= m_work.maxLogitRows)
        return;
    const auto states = [this, maxTokens] {
        return Tensor(m_ops, kernels::DType::F32, std::array{std::int64_t{maxTokens}, std::int64_t{m_config.hidden}});
    };
    Workspace work;
    work.residual = states();
    work.normed = states();
    if (!addsDirectly())
        work.branch = states();
    work.memory = Tensor(m_ops, kernels::DType::F32, std::array{scratchFloats(maxTokens, maxLogitRows)});
    work.maxTokens = maxTokens;
    work.maxLogitRows = maxLogitRows;
    m_work = std::move(work);
}

std::size_t DecoderModel::weightBytes() const
{
    std::size_t total = m_embedding->residentBytes() + m_outputNorm.bytes() + (m_head ? m_head->residentBytes() : 0)
        + m_headBias.bytes() + (m_positions ? m_positions->residentBytes() : 0);
    for (const Layer &layer : m_layers)
        total += layer.attention.weightBytes() + layer.feedForward.weightBytes();
    return total;
}

std::size_t DecoderModel::bytesPerToken() const
{
    std::size_t total = head().bytesPerPass();
    for (const Layer &layer : m_layers)
        total += layer.attention.block->bytesPerToken() + layer.feedForward.block->bytesPerToken();
    return total;
}

void DecoderModel::enter(int layer) const
{
    if (m_onLayer)
        m_onLayer(layer);
}

void DecoderModel::runBranch(const Branch &branch, DecoderStep &step)
{
    const TensorView residual = m_work.residual.rows(step.tokens);
    TensorView input = residual;
    if (!branch.norm.empty()) {
        input = m_work.normed.rows(step.tokens);
        branch.norm.apply(residual, input, step.stream);
    }
    step.scratch.reset();
    if (addsDirectly()) {
        branch.block->run(input, residual, true, step);
        return;
    }
    const TensorView output = m_work.branch.rows(step.tokens);
    branch.block->run(input, output, false, step);
    if (!branch.postNorm.empty())
        branch.postNorm.apply(output, output, step.stream);
    if (m_config.residualScale != 1.0F)
        m_ops.scale(output, m_config.residualScale, step.stream);
    m_ops.add(output, residual, step.stream);
}

/// Both branches read the state before either has added to it.
void DecoderModel::runParallel(const Layer &layer, DecoderStep &step)
{
    const TensorView residual = m_work.residual.rows(step.tokens);
    const TensorView normed = m_work.normed.rows(step.tokens);
    const TensorView output = m_work.branch.rows(step.tokens);
    layer.attention.norm.apply(residual, normed, step.stream);
    step.scratch.reset();
    layer.attention.block->run(normed, output, false, step);
    if (!layer.feedForward.norm.empty())
        layer.feedForward.norm.apply(residual, normed, step.stream);
    step.scratch.reset();
    layer.feedForward.block->run(normed, output, true, step);
    if (m_config.residualScale != 1.0F)
        m_ops.scale(output, m_config.residualScale, step.stream);
    m_ops.add(output, residual, step.stream);
}

void DecoderModel::embed(const DecoderStep &step)
{
    const TensorView residual = m_work.residual.rows(step.tokens);
    m_ops.embed(*m_embedding, step.batch.tokenIds, residual, step.stream);
    if (m_config.embeddingScale != 1.0F)
        m_ops.scale(residual, m_config.embeddingScale, step.stream);
    if (m_positions) {
        const TensorView positions = m_work.normed.rows(step.tokens);
        m_ops.embed(*m_positions, step.batch.positions, positions, step.stream);
        m_ops.add(positions, residual, step.stream);
    }
}

void DecoderModel::project(DecoderStep &step, TensorView logits)
{
    const auto rows = static_cast<std::int64_t>(step.batch.logitRows.size());
    if (rows == 0)
        return;
    step.scratch.reset();
    const TensorView last = step.scratch.take(rows, m_config.hidden);
    const TensorView normed = m_work.normed.rows(rows);
    m_ops.gatherRows(m_work.residual.rows(step.tokens), step.batch.logitRows, last, step.stream);
    m_outputNorm.apply(last, normed, step.stream);
    m_ops.linear(head(), normed, logits, floats(m_headBias), step.stream);
    if (m_config.logitScale != 1.0F)
        m_ops.scale(logits, m_config.logitScale, step.stream);
    if (m_config.logitSoftCap > 0.0F)
        m_ops.softCap(logits, m_config.logitSoftCap, step.stream);
}

void DecoderModel::forward(const ForwardBatch &batch, KvCache &kv, TensorView logits, kernels::Stream &stream)
{
    const auto tokens = static_cast<std::int64_t>(batch.tokenIds.size());
    CHECK(tokens >= 1 && tokens <= m_work.maxTokens
          && batch.logitRows.size() <= static_cast<std::size_t>(m_work.maxLogitRows)
          && batch.logitRows.size() <= batch.tokenIds.size());
    const kernels::PagedBatch paged = pagedBatch(batch, kv, false);
    const kernels::PagedBatch windowed = pagedBatch(batch, kv, true);
    Scratch scratch(m_work.memory.view());
    DecoderStep step{batch, paged, batch.slotIds, {}, scratch, stream, tokens};
    step.onRoute = m_onRoute ? &m_onRoute : nullptr;
    embed(step);
    for (int i = 0; i < m_config.layers; ++i) {
        const Layer &layer = m_layers[static_cast<std::size_t>(i)];
        step.kvLayer = kv.layer(i);
        step.paged = kv.holdsWindow(i) ? windowed : paged;
        step.slotIds = kv.holdsWindow(i) ? batch.windowSlotIds : batch.slotIds;
        step.layer = i;
        enter(i);
        if (m_config.parallel) {
            runParallel(layer, step);
        } else {
            runBranch(layer.attention, step);
            runBranch(layer.feedForward, step);
        }
    }
    enter(m_config.layers);
    project(step, logits);
}

std::unique_ptr<Model> loadDecoder(const ModelConfig &config, WeightLoader &loader)
{
    return std::make_unique<DecoderModel>(config, loader);
}

} // namespace engine
