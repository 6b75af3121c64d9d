// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/models/decoder_block.h"
#include "engine/models/layers.h"

#include <memory>
#include <vector>

namespace engine {

/// A mixture of gated feed-forward experts of which a router picks some for each token, and perhaps one that all
/// tokens take.
/// Sources: Shazeer et al. 2017, arXiv:1701.06538; shared experts: Dai et al. 2024, arXiv:2401.06066.
class MoeFeedForward final : public DecoderBlock {
public:
    MoeFeedForward(const ModelConfig &config, int layer, WeightLoader &loader);

    void run(kernels::TensorView x, kernels::TensorView target, bool accumulate, DecoderStep &step) override;
    [[nodiscard]] std::int64_t scratchFloats(std::int64_t tokens) const override;
    [[nodiscard]] std::size_t weightBytes() const override;
    [[nodiscard]] std::size_t bytesPerToken() const override;

private:
    using Weight = std::unique_ptr<kernels::PackedWeight>;

    void loadExperts(int layer, WeightLoader &loader);
    void loadBiases(int layer, WeightLoader &loader);
    void reportChoice(kernels::TensorView ids, kernels::TensorView weights, DecoderStep &step);
    void addShared(kernels::TensorView x, kernels::TensorView target, DecoderStep &step);

    kernels::Ops &m_ops;
    MoeConfig m_moe;
    std::int64_t m_hidden;
    kernels::Activation m_activation;
    kernels::RouterShape m_router;
    Weight m_routerWeight; ///< [experts, hidden]
    Tensor m_routerBias;
    Tensor m_selectionBias;
    std::vector<Weight> m_experts; ///< gate and up [2 * intermediate, hidden] of all, then down [hidden, intermediate]
    std::vector<const kernels::PackedWeight *> m_gateUp; ///< [experts]
    std::vector<const kernels::PackedWeight *> m_down;   ///< [experts]
    Tensor m_gateUpBias;                                 ///< [experts * 2 * intermediate] or empty
    Tensor m_downBias;                                   ///< [experts * hidden] or empty
    std::vector<const float *> m_gateUpBiases;           ///< [experts] or empty
    std::vector<const float *> m_downBiases;             ///< [experts] or empty
    Weight m_sharedGateUp;                               ///< or null
    Weight m_sharedDown;
    Weight m_sharedWeight; ///< [1, hidden] or null
};

} // namespace engine
