// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/decoder_norm.h"

namespace engine {

using kernels::TensorView;

DecoderNorm::DecoderNorm(const ModelConfig &config, const std::string &name, WeightLoader &loader)
    : DecoderNorm(config, name, loader, config.normEpsilon)
{
}

DecoderNorm::DecoderNorm(const ModelConfig &config, const std::string &name, WeightLoader &loader, float epsilon)
    : m_ops(&loader.ops())
    , m_kind(config.norm)
    , m_epsilon(epsilon)
    , m_weight(loader.has(name + ".0.weight") ? loader.numberedVectors(name, config.normWeightOffset)
                                              : loader.vector(name + ".weight", config.normWeightOffset))
    , m_bias(loader.vector(name + ".bias"))
{
}

void DecoderNorm::applyWith(const float *weight, TensorView x, TensorView out, kernels::Stream &stream) const
{
    if (m_kind == NormKind::Rms)
        m_ops->rmsNorm(x, weight, m_epsilon, out, stream);
    else
        m_ops->layerNorm(x, weight, floats(m_bias), m_epsilon, out, stream);
}

void DecoderNorm::apply(TensorView x, TensorView out, kernels::Stream &stream) const
{
    applyWith(floats(m_weight), x, out, stream);
}

void DecoderNorm::applyToEachHead(TensorView heads, kernels::Stream &stream) const
{
    for (std::int64_t head = 0; head < heads.shape[1]; ++head) {
        TensorView one = heads;
        one.data = heads.data + head * heads.strides[1] * static_cast<std::int64_t>(sizeof(float));
        one.rank = 2;
        one.shape = {heads.shape[0], heads.shape[2], 0, 0};
        one.strides = {heads.strides[0], 1, 0, 0};
        applyWith(floats(m_weight) + head * heads.shape[2], one, one, stream);
    }
}

} // namespace engine
