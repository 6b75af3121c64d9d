// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/model_registry.h"

#include <array>

namespace engine {
namespace {

/// LayerNorm, biases and a plain feed-forward part.
ModelConfig readAnyGpt(const Checkpoint &checkpoint, kernels::Activation activation)
{
    ModelConfig config = readCommonConfig(checkpoint, {.norm = NormKind::Layer, .activation = activation});
    refuseExperts(config);
    refuseLogitScale(checkpoint, config);
    config.gated = false;
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
    const ConfigReader reader(checkpoint.metadata(), config.architecture);
    if (reader.flag("attention.qk_norm", false)) {
        config.queryKeyNorm = QueryKeyNorm::Head;
        config.queryKeyNormBias = true;
    }
    return config;
}

void translatePhi2(const HfConfig &config, HfKeys &keys)
{
    keys.set("attention.qk_norm", config.boolean("qk_layernorm").value_or(false));
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
    static constexpr std::array names = {
        HfName{"model.layers.{}.self_attn.dense", "blk.{}.attn_output"},
        HfName{"model.layers.{}.mlp.fc1", "blk.{}.ffn_up"},
        HfName{"model.layers.{}.mlp.fc2", "blk.{}.ffn_down"},
        HfName{"model.final_layernorm", "output_norm"},
        HfName{"model.layers.{}.self_attn.q_layernorm", "blk.{}.attn_q_norm"},
        HfName{"model.layers.{}.self_attn.k_layernorm", "blk.{}.attn_k_norm"},
    };
    HfFamily hf;
    hf.modelTypes = {"phi"};
    hf.architectures = {"PhiForCausalLM"};
    hf.defaults = R"({"layer_norm_eps": 1e-5, "partial_rotary_factor": 0.5, "max_position_embeddings": 2048})";
    hf.translate = translatePhi2;
    hf.names = names;
    return {"phi2", readPhi2Config, decoderTensors, loadDecoder, hf};
}

} // namespace engine
