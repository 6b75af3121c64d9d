// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/cache/kv_cache.h"
#include "engine/models/config_reader.h"
#include "engine/models/model_registry.h"

#include <array>
#include <utility>

namespace engine {
namespace {

using kernels::PackedWeight;
using kernels::TensorView;

/// Weights of one layer; matrices are [outputs, inputs].
struct LlamaLayer {
    Tensor attentionNorm;                 ///< [hidden]
    std::unique_ptr<PackedWeight> qkv;    ///< [(heads + 2 * kvHeads) * headDim, hidden]
    Tensor qkvBias;                       ///< [(heads + 2 * kvHeads) * headDim] or empty
    std::unique_ptr<PackedWeight> output; ///< [hidden, heads * headDim]
    Tensor outputBias;                    ///< [hidden] or empty
    Tensor feedForwardNorm;               ///< [hidden]
    std::unique_ptr<PackedWeight> gateUp; ///< [2 * intermediate, hidden]
    std::unique_ptr<PackedWeight> down;   ///< [hidden, intermediate]
};

/// Scratch of a step; rows are tokens.
struct LlamaWorkspace {
    Tensor residual; ///< [tokens, hidden]
    Tensor normed;   ///< [tokens, hidden]
    Tensor qkv;      ///< [tokens, (heads + 2 * kvHeads) * headDim]
    Tensor attended; ///< [tokens, heads * headDim]
    Tensor inner;    ///< [tokens, intermediate]
    Tensor last;     ///< [logitRows, hidden]
    int maxTokens = 0;
    int maxLogitRows = 0;
};

/// Llama and what shares its shape: SmolLM2, Mistral, TinyLlama and others.
/// Source: Touvron et al. 2023, arXiv:2302.13971; grouped heads: Ainslie et al. 2023, arXiv:2305.13245.
class LlamaModel final : public Model {
public:
    LlamaModel(ModelConfig config, WeightLoader &loader);

    [[nodiscard]] const ModelConfig &config() const override { return m_config; }
    [[nodiscard]] std::size_t workspaceBytes(int maxTokens, int maxLogitRows) const override;
    void reserve(int maxTokens, int maxLogitRows) override;
    [[nodiscard]] std::size_t weightBytes() const override;
    [[nodiscard]] std::size_t bytesPerToken() const override;
    void forward(const ForwardBatch &batch, KvCache &kv, TensorView logits, kernels::Stream &stream) override;
    void setLayerCallback(std::function<void(int)> callback) override { m_onLayer = std::move(callback); }

private:
    [[nodiscard]] std::int64_t queryWidth() const { return std::int64_t{m_heads} * m_config.headDim; }
    [[nodiscard]] std::int64_t kvWidth() const { return std::int64_t{m_kvHeads} * m_config.headDim; }
    [[nodiscard]] std::int64_t qkvWidth() const { return queryWidth() + 2 * kvWidth(); }
    [[nodiscard]] const PackedWeight &head() const { return m_head ? *m_head : *m_embedding; }
    void loadLayer(int number, WeightLoader &loader);
    void enter(int layer) const;
    void attend(const LlamaLayer &layer, const ForwardBatch &batch, TensorView kvLayer,
                const kernels::PagedBatch &paged, kernels::Stream &stream);
    void feedForward(const LlamaLayer &layer, std::int64_t tokens, kernels::Stream &stream);
    void project(const ForwardBatch &batch, TensorView logits, kernels::Stream &stream);

    ModelConfig m_config;
    kernels::Ops &m_ops;
    int m_heads;
    int m_kvHeads;
    kernels::RopeTable m_rope;
    std::unique_ptr<PackedWeight> m_embedding; ///< [vocab, hidden]
    std::vector<LlamaLayer> m_layers;
    Tensor m_outputNorm;                  ///< [hidden]
    std::unique_ptr<PackedWeight> m_head; ///< [vocab, hidden]; null when tied
    LlamaWorkspace m_work;
    std::function<void(int)> m_onLayer;
};

LlamaModel::LlamaModel(ModelConfig config, WeightLoader &loader)
    : m_config(std::move(config))
    , m_ops(loader.ops())
    , m_heads(m_config.layer.front().heads)
    , m_kvHeads(m_config.layer.front().kvHeads)
{
    const std::vector<float> factors = loader.values("rope_freqs.weight");
    for (const float factor : factors) {
        if (!(factor > 0.0F && factor < 1e9F))
            throw Error(ErrorCode::Refused,
                        "tensor rope_freqs.weight holds " + std::to_string(factor)
                            + "; wanted finite, positive factors");
    }
    m_rope = makeRopeTable(m_config.rope, factors);
    m_embedding = loader.matrix({"token_embd.weight"});
    m_layers.resize(static_cast<std::size_t>(m_config.layers));
    for (int i = 0; i < m_config.layers; ++i)
        loadLayer(i, loader);
    m_outputNorm = loader.vector("output_norm.weight");
    if (!m_config.tiedHead)
        m_head = loader.matrix({"output.weight"});
}

void LlamaModel::loadLayer(int number, WeightLoader &loader)
{
    const auto name = [number](const char *part, const char *suffix = "weight") {
        return layerTensor(number, part, suffix);
    };
    LlamaLayer &layer = m_layers[static_cast<std::size_t>(number)];
    layer.attentionNorm = loader.vector(name("attn_norm"));
    layer.qkv = loader.matrix({name("attn_q"), name("attn_k"), name("attn_v")});
    layer.qkvBias = loader.stackedBias({name("attn_q", "bias"), name("attn_k", "bias"), name("attn_v", "bias")},
                                       {queryWidth(), kvWidth(), kvWidth()});
    layer.output = loader.matrix({name("attn_output")});
    layer.outputBias = loader.vector(name("attn_output", "bias"));
    layer.feedForwardNorm = loader.vector(name("ffn_norm"));
    layer.gateUp = loader.matrix({name("ffn_gate"), name("ffn_up")});
    layer.down = loader.matrix({name("ffn_down")});
}

std::size_t LlamaModel::workspaceBytes(int maxTokens, int maxLogitRows) const
{
    const std::int64_t perToken =
        2 * std::int64_t{m_config.hidden} + qkvWidth() + queryWidth() + m_config.maxIntermediate();
    const std::int64_t floats = perToken * maxTokens + std::int64_t{m_config.hidden} * maxLogitRows;
    return static_cast<std::size_t>(floats) * sizeof(float);
}

void LlamaModel::reserve(int maxTokens, int maxLogitRows)
{
    CHECK(maxTokens >= 1 && maxLogitRows >= 1);
    if (maxTokens <= m_work.maxTokens && maxLogitRows <= m_work.maxLogitRows)
        return;
    const auto floats = [this](int rows, std::int64_t columns) {
        return Tensor(m_ops, kernels::DType::F32, std::array{std::int64_t{rows}, columns});
    };
    LlamaWorkspace work;
    work.residual = floats(maxTokens, m_config.hidden);
    work.normed = floats(maxTokens, m_config.hidden);
    work.qkv = floats(maxTokens, qkvWidth());
    work.attended = floats(maxTokens, queryWidth());
    work.inner = floats(maxTokens, m_config.maxIntermediate());
    work.last = floats(maxLogitRows, m_config.hidden);
    work.maxTokens = maxTokens;
    work.maxLogitRows = maxLogitRows;
    m_work = std::move(work);
}

std::size_t LlamaModel::weightBytes() const
{
    std::size_t total = m_embedding->residentBytes() + m_outputNorm.bytes() + (m_head ? m_head->residentBytes() : 0);
    for (const LlamaLayer &layer : m_layers) {
        for (const auto *matrix : {&layer.qkv, &layer.output, &layer.gateUp, &layer.down})
            total += (*matrix)->residentBytes();
        for (const auto *vector : {&layer.attentionNorm, &layer.qkvBias, &layer.outputBias, &layer.feedForwardNorm})
            total += vector->bytes();
    }
    return total;
}

std::size_t LlamaModel::bytesPerToken() const
{
    std::size_t total = head().bytesPerPass();
    for (const LlamaLayer &layer : m_layers) {
        for (const auto *matrix : {&layer.qkv, &layer.output, &layer.gateUp, &layer.down})
            total += (*matrix)->bytesPerPass();
    }
    return total;
}

void LlamaModel::enter(int layer) const
{
    if (m_onLayer)
        m_onLayer(layer);
}

void LlamaModel::attend(const LlamaLayer &layer, const ForwardBatch &batch, TensorView kvLayer,
                        const kernels::PagedBatch &paged, kernels::Stream &stream)
{
    const auto tokens = static_cast<std::int64_t>(batch.tokenIds.size());
    const TensorView residual = m_work.residual.rows(tokens);
    const TensorView normed = m_work.normed.rows(tokens);
    const TensorView qkv = m_work.qkv.rows(tokens);
    const TensorView attended = m_work.attended.rows(tokens);
    const TensorView queries = headsView(qkv, 0, m_heads, m_config.headDim);
    const TensorView keys = headsView(qkv, queryWidth(), m_kvHeads, m_config.headDim);
    const TensorView values = headsView(qkv, queryWidth() + kvWidth(), m_kvHeads, m_config.headDim);

    m_ops.rmsNorm(residual, floats(layer.attentionNorm), m_config.normEpsilon, normed, stream);
    m_ops.linear(*layer.qkv, normed, qkv, floats(layer.qkvBias), stream);
    m_ops.rope(queries, batch.positions, m_rope, stream);
    m_ops.rope(keys, batch.positions, m_rope, stream);
    m_ops.kvStore(keys, values, kvLayer, batch.slots, stream);
    kernels::AttentionShape shape;
    shape.heads = m_heads;
    shape.kvHeads = m_kvHeads;
    shape.headDim = m_config.headDim;
    shape.scale = m_config.attentionScale;
    m_ops.pagedAttention(queries, kvLayer, paged, shape, headsView(attended, 0, m_heads, m_config.headDim), stream);
    m_ops.linearAdd(*layer.output, attended, residual, floats(layer.outputBias), stream);
}

void LlamaModel::feedForward(const LlamaLayer &layer, std::int64_t tokens, kernels::Stream &stream)
{
    const TensorView residual = m_work.residual.rows(tokens);
    const TensorView normed = m_work.normed.rows(tokens);
    const TensorView inner = m_work.inner.rows(tokens);
    m_ops.rmsNorm(residual, floats(layer.feedForwardNorm), m_config.normEpsilon, normed, stream);
    m_ops.linearGated(*layer.gateUp, m_config.activation, normed, inner, stream);
    m_ops.linearAdd(*layer.down, inner, residual, nullptr, stream);
}

void LlamaModel::project(const ForwardBatch &batch, TensorView logits, kernels::Stream &stream)
{
    const auto rows = static_cast<std::int64_t>(batch.logitRows.size());
    if (rows == 0)
        return;
    const TensorView last = m_work.last.rows(rows);
    const TensorView normed = m_work.normed.rows(rows);
    m_ops.gatherRows(m_work.residual.rows(static_cast<std::int64_t>(batch.tokenIds.size())), batch.logitRows, last,
                     stream);
    m_ops.rmsNorm(last, floats(m_outputNorm), m_config.normEpsilon, normed, stream);
    m_ops.linear(head(), normed, logits, nullptr, stream);
}

void LlamaModel::forward(const ForwardBatch &batch, KvCache &kv, TensorView logits, kernels::Stream &stream)
{
    const auto tokens = static_cast<std::int64_t>(batch.tokenIds.size());
    CHECK(tokens >= 1 && tokens <= m_work.maxTokens
          && batch.logitRows.size() <= static_cast<std::size_t>(m_work.maxLogitRows)
          && batch.logitRows.size() <= batch.tokenIds.size());
    const kernels::PagedBatch paged = pagedBatch(batch, kv);
    m_ops.embed(*m_embedding, batch.tokenIds, m_work.residual.rows(tokens), stream);
    for (int i = 0; i < m_config.layers; ++i) {
        const LlamaLayer &layer = m_layers[static_cast<std::size_t>(i)];
        enter(i);
        attend(layer, batch, kv.layer(i), paged, stream);
        feedForward(layer, tokens, stream);
    }
    enter(m_config.layers);
    project(batch, logits, stream);
}

/// What the shared keys may say but this forward pass does not do.
void checkLlama(const ModelConfig &config, const ConfigReader &reader)
{
    if (config.moe.experts > 0)
        reader.refuse("expert_count", std::to_string(config.moe.experts), "0: mixtures of experts are not supported");
    for (const LayerConfig &layer : config.layer) {
        if (layer.heads != config.layer.front().heads || layer.kvHeads != config.layer.front().kvHeads)
            reader.refuse("attention.head_count", "different from layer to layer", "the same number in every layer");
    }
    for (const char *key : {"embedding_scale", "residual_scale", "logit_scale"}) {
        if (reader.number(key, 1.0) != 1.0)
            reader.refuse(key, std::to_string(reader.number(key, 1.0)),
                          "1: other multipliers are not supported for this architecture");
    }
}

ModelConfig readLlamaConfig(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint);
    checkLlama(config, ConfigReader(checkpoint.metadata(), config.architecture));
    config.tiedHead = !checkpoint.find("output.weight");
    config.attentionBias = checkpoint.find(layerTensor(0, "attn_q", "bias")) != nullptr;
    config.outputBias = checkpoint.find(layerTensor(0, "attn_output", "bias")) != nullptr;
    return config;
}

std::vector<ExpectedTensor> llamaTensors(const ModelConfig &config)
{
    const std::int64_t hidden = config.hidden;
    std::vector<ExpectedTensor> all;
    all.push_back({"token_embd.weight", {config.vocab, hidden}});
    all.push_back({"output_norm.weight", {hidden}, TensorUse::Vector});
    all.push_back({"output.weight", {config.vocab, hidden}, TensorUse::Matrix, config.tiedHead});
    all.push_back({"rope_freqs.weight", {config.rope.dimensions / 2}, TensorUse::Vector, true});
    for (int i = 0; i < config.layers; ++i) {
        const LayerConfig &layer = config.layer[static_cast<std::size_t>(i)];
        const std::int64_t queries = std::int64_t{layer.heads} * config.headDim;
        const std::int64_t keys = std::int64_t{layer.kvHeads} * config.headDim;
        all.push_back({layerTensor(i, "attn_norm"), {hidden}, TensorUse::Vector});
        all.push_back({layerTensor(i, "attn_q"), {queries, hidden}});
        all.push_back({layerTensor(i, "attn_k"), {keys, hidden}});
        all.push_back({layerTensor(i, "attn_v"), {keys, hidden}});
        all.push_back({layerTensor(i, "attn_output"), {hidden, queries}});
        all.push_back({layerTensor(i, "attn_q", "bias"), {queries}, TensorUse::Vector, true});
        all.push_back({layerTensor(i, "attn_k", "bias"), {keys}, TensorUse::Vector, true});
        all.push_back({layerTensor(i, "attn_v", "bias"), {keys}, TensorUse::Vector, true});
        all.push_back({layerTensor(i, "attn_output", "bias"), {hidden}, TensorUse::Vector, true});
        all.push_back({layerTensor(i, "ffn_norm"), {hidden}, TensorUse::Vector});
        all.push_back({layerTensor(i, "ffn_gate"), {layer.intermediate, hidden}});
        all.push_back({layerTensor(i, "ffn_up"), {layer.intermediate, hidden}});
        all.push_back({layerTensor(i, "ffn_down"), {hidden, layer.intermediate}});
    }
    return all;
}

std::unique_ptr<Model> loadLlama(const ModelConfig &config, WeightLoader &loader)
{
    return std::make_unique<LlamaModel>(config, loader);
}

} // namespace

ModelFamily llamaFamily()
{
    return {"llama", readLlamaConfig, llamaTensors, loadLlama};
}

} // namespace engine
