// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/models/layers.h"

#include <string>

namespace engine {

/// The norm of one place of a network. Sources: Ba et al. 2016, arXiv:1607.06450; Zhang and Sennrich 2019,
/// arXiv:1910.07467.
class DecoderNorm {
public:
    DecoderNorm() = default;
    /// Reads `<name>.weight` (or `<name>.0.weight` and so on) and `<name>.bias` where they exist; without a weight all
    /// weights are 1.
    DecoderNorm(const ModelConfig &config, const std::string &name, WeightLoader &loader);
    /// The same with an epsilon of its own.
    DecoderNorm(const ModelConfig &config, const std::string &name, WeightLoader &loader, float epsilon);

    [[nodiscard]] bool empty() const { return m_ops == nullptr; }
    /// Norms the rows of the last dimension; x and out [tokens, n] or [tokens, heads, n], may be the same.
    void apply(kernels::TensorView x, kernels::TensorView out, kernels::Stream &stream) const;
    /// Norms each head [tokens, headDim] of `heads` in place by its own row of a weight [heads, headDim].
    void applyToEachHead(kernels::TensorView heads, kernels::Stream &stream) const;
    [[nodiscard]] std::size_t bytes() const { return m_weight.bytes() + m_bias.bytes(); }

private:
    void applyWith(const float *weight, kernels::TensorView x, kernels::TensorView out, kernels::Stream &stream) const;

    kernels::Ops *m_ops = nullptr;
    NormKind m_kind = NormKind::Rms;
    float m_epsilon = 0.0F;
    Tensor m_weight; ///< [n]
    Tensor m_bias;   ///< [n] or empty
};

} // namespace engine
