// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/models/decoder_block.h"
#include "engine/models/layers.h"

#include <vector>

namespace engine {

/// The rotary tables of a network: of layers that see all keys, in the variants of sequences' lengths, and of
/// those with a window where they differ.
class DecoderRope {
public:
    /// Reads the tensors that hold factors. \throws Error Refused for factors that are not finite and positive
    DecoderRope(const ModelConfig &config, WeightLoader &loader);

    /// Rotates heads [tokens, heads, n] of a layer in place; the leading RopeConfig::dimensions of each.
    void apply(const LayerConfig &layer, kernels::TensorView heads, const DecoderStep &step);
    /// Of cosines and sines; some families correct the attention's scale by it.
    [[nodiscard]] float attentionFactor() const { return m_table.attentionFactor; }

private:
    [[nodiscard]] const kernels::RopeTable &table(int variant);

    kernels::Ops &m_ops;
    RopeConfig m_rope;
    std::vector<float> m_factors;     ///< of variant 0; [dimensions / 2] or empty
    std::vector<float> m_longFactors; ///< longrope: of variant 1
    kernels::RopeTable m_table;       ///< of variant 0
    kernels::RopeTable m_variantTable;
    int m_variant = 0; ///< that m_variantTable holds
    kernels::RopeTable m_localTable;
};

} // namespace engine
