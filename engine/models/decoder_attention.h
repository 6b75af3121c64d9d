// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/models/decoder_block.h"
#include "engine/models/decoder_norm.h"
#include "engine/models/decoder_rope.h"
#include "engine/models/layers.h"

#include <memory>

namespace engine {

/// Attention whose heads share keys and values in groups, over the paged cache.
/// Source: Vaswani et al. 2017, arXiv:1706.03762; Ainslie et al. 2023, arXiv:2305.13245.
class GroupedAttention final : public DecoderBlock {
public:
    /// `rope` outlives this.
    GroupedAttention(const ModelConfig &config, int layer, WeightLoader &loader, DecoderRope &rope);

    void run(kernels::TensorView x, kernels::TensorView target, bool accumulate, DecoderStep &step) override;
    [[nodiscard]] std::int64_t scratchFloats(std::int64_t tokens) const override;
    [[nodiscard]] std::size_t weightBytes() const override;
    [[nodiscard]] std::size_t bytesPerToken() const override;

private:
    [[nodiscard]] std::int64_t queryWidth() const { return std::int64_t{m_layer.heads} * m_shape.headDim; }
    [[nodiscard]] std::int64_t kvWidth() const { return std::int64_t{m_layer.kvHeads} * m_shape.headDim; }
    [[nodiscard]] std::int64_t qkvWidth() const { return queryWidth() + 2 * kvWidth(); }
    void normQueriesAndKeys(kernels::TensorView qkv, kernels::Stream &stream) const;

    kernels::Ops &m_ops;
    DecoderRope &m_rope;
    LayerConfig m_layer;
    QueryKeyNorm m_queryKeyNorm;
    bool m_normAfterRope;
    float m_limit; ///< of queries, keys and values; 0 = none
    kernels::AttentionShape m_shape;
    std::unique_ptr<kernels::PackedWeight> m_qkv; ///< [(heads + 2 * kvHeads) * headDim, hidden]
    Tensor m_qkvBias;                             ///< [(heads + 2 * kvHeads) * headDim] or empty
    DecoderNorm m_queryNorm;
    DecoderNorm m_keyNorm;
    Tensor m_sinks;                                  ///< [heads] or empty
    std::unique_ptr<kernels::PackedWeight> m_output; ///< [hidden, heads * headDim]
    Tensor m_outputBias;                             ///< [hidden] or empty
};

/// The attention of a layer, as the configuration says.
[[nodiscard]] std::unique_ptr<DecoderBlock> makeAttention(const ModelConfig &config, int layer, WeightLoader &loader,
                                                          DecoderRope &rope);

} // namespace engine
