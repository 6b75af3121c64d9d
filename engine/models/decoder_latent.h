// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/models/decoder_block.h"
#include "engine/models/decoder_norm.h"
#include "engine/models/decoder_rope.h"
#include "engine/models/layers.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace engine {

/// Latent attention with the projections of keys and values absorbed: a query head is taken into the space of the
/// latent vectors, meets them in the cache as they are, and what it sums up is projected to the head's values.
/// Source: DeepSeek-AI 2024, arXiv:2405.04434, section 2.1 and appendix C.
class LatentAttention final : public DecoderBlock {
public:
    /// `rope` outlives this.
    LatentAttention(const ModelConfig &config, int layer, WeightLoader &loader, DecoderRope &rope);

    void run(kernels::TensorView x, kernels::TensorView target, bool accumulate, DecoderStep &step) override;
    [[nodiscard]] std::int64_t scratchFloats(std::int64_t tokens) const override;
    [[nodiscard]] std::size_t weightBytes() const override;
    [[nodiscard]] std::size_t bytesPerToken() const override;

private:
    using Weight = std::unique_ptr<kernels::PackedWeight>;

    void keep(Weight weight, std::vector<const kernels::PackedWeight *> &heads);
    void loadHeads(int layer, WeightLoader &loader);
    void loadFusedHeads(const std::string &name, WeightLoader &loader);
    [[nodiscard]] kernels::TensorView projectQueries(kernels::TensorView x, DecoderStep &step);
    void absorb(kernels::TensorView queries, kernels::TensorView absorbed, DecoderStep &step);
    void storeKeys(kernels::TensorView x, DecoderStep &step);
    [[nodiscard]] std::vector<const Weight *> weights() const;

    kernels::Ops &m_ops;
    DecoderRope &m_rope;
    LatentConfig m_latent;
    LayerConfig m_layer;
    kernels::AttentionShape m_shape;
    Weight m_queryDown;     ///< [queryRank, hidden] or null
    Tensor m_queryDownBias; ///< [queryRank] or empty
    DecoderNorm m_queryNorm;
    Weight m_query;    ///< [heads * queryDim, queryRank or hidden]
    Weight m_keys;     ///< [keyDim, hidden]
    Tensor m_keysBias; ///< [keyDim] or empty
    DecoderNorm m_keyNorm;
    std::vector<const kernels::PackedWeight *> m_absorb; ///< [heads] of [kvRank, plainDim]
    std::vector<const kernels::PackedWeight *> m_values; ///< [heads] of [valueDim, kvRank]
    std::vector<Weight> m_heads;                         ///< owns both
    Weight m_output;                                     ///< [hidden, heads * valueDim]
    Tensor m_outputBias;                                 ///< [hidden] or empty
    std::vector<std::byte> m_transposed;                 ///< what m_absorb reads on backends that keep the source
};

} // namespace engine
