// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/model_registry.h"

#include <array>

namespace engine {
namespace {

/// Sinks, biases everywhere, a window in every second layer, and experts with a clamped gate.
/// Source: OpenAI 2025, gpt-oss-120b & gpt-oss-20b model card, arXiv:2508.10925.
ModelConfig readGptOssConfig(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint, {.windowPattern = 2});
    refuseLogitScale(checkpoint, config);
    config.activation = kernels::Activation::SwigluClamped;
    const ConfigReader reader(checkpoint.metadata(), config.architecture);
    config.attentionBias = config.outputBias = reader.flag("attention.bias", true);
    config.sinks = true;
    config.feedForwardNormName = "post_attention_norm";
    readMoe(checkpoint, config, {.scores = kernels::RouterShape::Scores::SelectedSoftmax});
    return config;
}

void translateGptOss(const HfConfig &config, HfKeys &keys)
{
    keys.set("expert_feed_forward_length", config.count("intermediate_size", 1 << 23));
    keys.set("attention.bias", config.boolean("attention_bias").value_or(true));
    if (config.number("swiglu_limit").value_or(7.0) != 7.0)
        config.refuseValue("swiglu_limit", "7: other limits are not supported");
}

} // namespace

ModelFamily gptOssFamily()
{
    static constexpr std::array names = {
        HfName{"model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm"},
        HfName{"model.layers.{}.self_attn.sinks", "blk.{}.attn_sinks.weight"},
        HfName{"model.layers.{}.mlp.router", "blk.{}.ffn_gate_inp"},
        HfName{"model.layers.{}.mlp.experts.gate_up_proj", "blk.{}.ffn_gate.weight", HfForm::TransposedGateUp},
        HfName{"model.layers.{}.mlp.experts.down_proj", "blk.{}.ffn_down.weight", HfForm::TransposedExperts},
        HfName{"model.layers.{}.mlp.experts.gate_up_proj_bias", "blk.{}.ffn_gate_exps.bias", HfForm::GateUpBias},
        HfName{"model.layers.{}.mlp.experts.down_proj_bias", "blk.{}.ffn_down_exps.bias"},
        HfName{"model.layers.{}.mlp.experts.gate_up_proj_blocks", "blk.{}.ffn_gate.weight", HfForm::Mxfp4GateUp},
        HfName{"model.layers.{}.mlp.experts.down_proj_blocks", "blk.{}.ffn_down.weight", HfForm::Mxfp4Experts},
        HfName{"model.layers.{}.mlp.experts.gate_up_proj_scales", "blk.{}.ffn_gate.weight", HfForm::Mxfp4Scales},
        HfName{"model.layers.{}.mlp.experts.down_proj_scales", "blk.{}.ffn_down.weight", HfForm::Mxfp4Scales},
    };
    HfFamily hf;
    hf.modelTypes = {"gpt_oss"};
    hf.architectures = {"GptOssForCausalLM"};
    hf.names = names;
    hf.activations = {"silu"}; // the class has one of its own
    hf.defaults = R"({"rms_norm_eps": 1e-5, "rope_theta": 150000.0, "head_dim": 64,
                          "sliding_window": 128, "sliding_window_pattern": 2})";
    hf.translate = translateGptOss;
    return {"gpt-oss", readGptOssConfig, decoderTensors, loadDecoder, hf};
}

} // namespace engine
