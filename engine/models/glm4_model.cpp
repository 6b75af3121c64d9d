// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/model_registry.h"

#include <array>

namespace engine {
namespace {

/// GLM 4 (the first one, whose files say chatglm): a llama with gate and up in one matrix that rotates a part of each
/// head. Source: GLM team 2024, arXiv:2406.12793; transformers, models/glm.
ModelConfig readChatglmConfig(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint, {.interleavedRope = true});
    refuseExperts(config);
    refuseLogitScale(checkpoint, config);
    config.fusedGateUp = true;
    return config;
}

/// GLM 4 of 2025, with norms before and behind the branches. Source: transformers, models/glm4.
ModelConfig readGlm4Config(const Checkpoint &checkpoint)
{
    ModelConfig config = readChatglmConfig(checkpoint);
    config.placement = NormPlacement::Both;
    return config;
}

/// The library turns neighbours into pairs, as the makers' own code does.
void translateGlm(const HfConfig &, HfKeys &keys)
{
    keys.set("rope.interleaved", true);
}

} // namespace

ModelFamily chatglmFamily()
{
    HfFamily hf;
    hf.modelTypes = {"glm"};
    hf.architectures = {"GlmForCausalLM"};
    hf.defaults = R"({"rms_norm_eps": 1.5625e-7, "partial_rotary_factor": 0.5, "head_dim": 128,
                      "max_position_embeddings": 131072, "num_key_value_heads": 2})";
    hf.translate = translateGlm;
    return {"chatglm", readChatglmConfig, decoderTensors, loadDecoder, hf};
}

ModelFamily glm4Family()
{
    static constexpr std::array names = {
        HfName{"model.layers.{}.post_self_attn_layernorm", "blk.{}.post_attention_norm"},
        HfName{"model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"},
        HfName{"model.layers.{}.post_mlp_layernorm", "blk.{}.post_ffw_norm"},
    };
    HfFamily hf;
    hf.modelTypes = {"glm4"};
    hf.architectures = {"Glm4ForCausalLM"};
    hf.defaults = R"({"rms_norm_eps": 1.5625e-7, "partial_rotary_factor": 0.5, "head_dim": 128,
                      "max_position_embeddings": 131072, "num_key_value_heads": 2})";
    hf.translate = translateGlm;
    hf.names = names;
    return {"glm4", readGlm4Config, decoderTensors, loadDecoder, hf};
}

} // namespace engine
