// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/models/decoder_block.h"
#include "engine/models/layers.h"

#include <memory>

namespace engine {

/// down(act(gate(x)) * up(x)), each with a bias or without.
/// Source: Shazeer 2020, arXiv:2002.05202.
class GatedFeedForward final : public DecoderBlock {
public:
    GatedFeedForward(const ModelConfig &config, int layer, WeightLoader &loader);

    void run(kernels::TensorView x, kernels::TensorView target, bool accumulate, DecoderStep &step) override;
    [[nodiscard]] std::int64_t scratchFloats(std::int64_t tokens) const override;
    [[nodiscard]] std::size_t weightBytes() const override;
    [[nodiscard]] std::size_t bytesPerToken() const override;

private:
    kernels::Ops &m_ops;
    kernels::Activation m_activation;
    std::unique_ptr<kernels::PackedWeight> m_gateUp; ///< [2 * intermediate, hidden]
    Tensor m_gateUpBias;                             ///< [2 * intermediate] or empty
    std::unique_ptr<kernels::PackedWeight> m_down;   ///< [hidden, intermediate]
    Tensor m_downBias;                               ///< [hidden] or empty
};

/// down(act(up(x))), each with a bias or without.
class PlainFeedForward final : public DecoderBlock {
public:
    PlainFeedForward(const ModelConfig &config, int layer, WeightLoader &loader);

    void run(kernels::TensorView x, kernels::TensorView target, bool accumulate, DecoderStep &step) override;
    [[nodiscard]] std::int64_t scratchFloats(std::int64_t tokens) const override;
    [[nodiscard]] std::size_t weightBytes() const override;
    [[nodiscard]] std::size_t bytesPerToken() const override;

private:
    kernels::Ops &m_ops;
    kernels::Activation m_activation;
    std::unique_ptr<kernels::PackedWeight> m_up;   ///< [intermediate, hidden]
    Tensor m_upBias;                               ///< [intermediate] or empty
    std::unique_ptr<kernels::PackedWeight> m_down; ///< [hidden, intermediate]
    Tensor m_downBias;                             ///< [hidden] or empty
};

/// The feed-forward part of a layer, as the configuration says.
[[nodiscard]] std::unique_ptr<DecoderBlock> makeFeedForward(const ModelConfig &config, int layer, WeightLoader &loader);

} // namespace engine
