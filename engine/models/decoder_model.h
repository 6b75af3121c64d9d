// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/models/decoder_block.h"
#include "engine/models/decoder_norm.h"
#include "engine/models/decoder_rope.h"
#include "engine/models/layers.h"

#include <functional>
#include <memory>
#include <vector>

namespace engine {

/// The one forward pass of all families: embedding, layers of attention and feed-forward part, output head. What
/// families differ in is in ModelConfig and in the blocks that makeAttention and makeFeedForward choose.
/// Thread: the rank's worker.
class DecoderModel final : public Model {
public:
    /// Packs all weights. \pre checkTensors has passed
    DecoderModel(ModelConfig config, WeightLoader &loader);

    [[nodiscard]] const ModelConfig &config() const override { return m_config; }
    [[nodiscard]] std::size_t workspaceBytes(int maxTokens, int maxLogitRows) const override;
    void reserve(int maxTokens, int maxLogitRows) override;
    [[nodiscard]] std::size_t weightBytes() const override;
    [[nodiscard]] std::size_t bytesPerToken() const override;
    void forward(const ForwardBatch &batch, KvCache &kv, kernels::TensorView logits, kernels::Stream &stream) override;
    void setLayerCallback(std::function<void(int)> callback) override { m_onLayer = std::move(callback); }
    void setRouterCallback(RouterCallback callback) override { m_onRoute = std::move(callback); }

private:
    struct Branch {
        DecoderNorm norm; ///< of the input, or empty
        std::unique_ptr<DecoderBlock> block;
        DecoderNorm postNorm; ///< of the output, or empty

        [[nodiscard]] std::size_t weightBytes() const { return norm.bytes() + block->weightBytes() + postNorm.bytes(); }
    };
    struct Layer {
        Branch attention;
        Branch feedForward;
    };
    /// Rows are tokens. The scratch memory follows the last one.
    struct Workspace {
        Tensor residual; ///< [tokens, hidden]
        Tensor normed;   ///< [tokens, hidden]
        Tensor branch;   ///< [tokens, hidden], or empty where branches add to the residual stream directly
        Tensor memory;   ///< [scratch floats]
        int maxTokens = 0;
        int maxLogitRows = 0;
    };

    [[nodiscard]] const kernels::PackedWeight &head() const { return m_head ? *m_head : *m_embedding; }
    [[nodiscard]] bool addsDirectly() const;
    [[nodiscard]] std::int64_t scratchFloats(int maxTokens, int maxLogitRows) const;
    void loadLayer(int number, WeightLoader &loader);
    void enter(int layer) const;
    void runBranch(const Branch &branch, DecoderStep &step);
    void runParallel(const Layer &layer, DecoderStep &step);
    void embed(const DecoderStep &step);
    void project(DecoderStep &step, kernels::TensorView logits);

    ModelConfig m_config;
    kernels::Ops &m_ops;
    DecoderRope m_rope;
    std::unique_ptr<kernels::PackedWeight> m_embedding; ///< [vocab, hidden]
    std::unique_ptr<kernels::PackedWeight> m_positions; ///< [context, hidden] or null
    std::vector<Layer> m_layers;
    DecoderNorm m_outputNorm;
    std::unique_ptr<kernels::PackedWeight> m_head; ///< [vocab, hidden]; null when tied
    Tensor m_headBias;                             ///< [vocab] or empty
    Workspace m_work;
    std::function<void(int)> m_onLayer;
    RouterCallback m_onRoute;
};

/// For the registry. \pre checkTensors has passed
[[nodiscard]] std::unique_ptr<Model> loadDecoder(const ModelConfig &config, WeightLoader &loader);

} // namespace engine
