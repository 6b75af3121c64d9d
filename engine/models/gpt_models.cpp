// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/model_registry.h"

namespace engine {
namespace {

/// LayerNorm, biases and a plain feed-forward part.
ModelConfig readAnyGpt(const Checkpoint &checkpoint, kernels::Activation activation)
{
    ModelConfig config = readCommonConfig(checkpoint, {.norm = NormKind::Layer});
    refuseExperts(config);
    refuseLogitScale(checkpoint, config);
    config.gated = false;
    config.activation = activation;
    return config;
}

/// A table of positions instead of rotation. Source: Radford et al. 2019, "Language Models are Unsupervised Multitask
/// Learners".
ModelConfig readGpt2Config(const Checkpoint &checkpoint)
{
    ModelConfig config = readAnyGpt(checkpoint, kernels::Activation::GeluTanh);
    config.positionTable = true;
    for (LayerConfig &layer : config.layer)
        layer.rotates = false;
    return config;
}

/// Both branches side by side, each behind its own norm. Source: Black et al. 2022, arXiv:2204.06745; Biderman et al.
/// 2023, arXiv:2304.01373.
ModelConfig readGptNeoxConfig(const Checkpoint &checkpoint)
{
    ModelConfig config = readAnyGpt(checkpoint, kernels::Activation::GeluErf);
    const ConfigReader reader(checkpoint.metadata(), config.architecture);
    config.parallel = reader.flag("use_parallel_residual", true);
    return config;
}

/// Phi 1, 1.5 and 2: both branches side by side behind one norm. Source: Li et al. 2023, arXiv:2309.05463.
ModelConfig readPhi2Config(const Checkpoint &checkpoint)
{
    ModelConfig config = readAnyGpt(checkpoint, kernels::Activation::GeluTanh);
    config.parallel = true;
    config.feedForwardNorm = false;
    config.headBias = true;
    return config;
}

} // namespace

ModelFamily gpt2Family()
{
    return {"gpt2", readGpt2Config, decoderTensors, loadDecoder};
}

ModelFamily gptNeoxFamily()
{
    return {"gptneox", readGptNeoxConfig, decoderTensors, loadDecoder};
}

ModelFamily phi2Family()
{
    return {"phi2", readPhi2Config, decoderTensors, loadDecoder};
}

} // namespace engine
