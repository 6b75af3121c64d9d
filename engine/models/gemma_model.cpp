// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/model_registry.h"

#include <array>
#include <cmath>

namespace engine {
namespace {

ModelConfig readAnyGemma(const Checkpoint &checkpoint, const FamilyDefaults &defaults)
{
    FamilyDefaults withActivation = defaults;
    withActivation.activation = kernels::Activation::GeluTanh;
    ModelConfig config = readCommonConfig(checkpoint, withActivation);
    refuseExperts(config);
    refuseLogitScale(checkpoint, config);
    const ConfigReader reader(checkpoint.metadata(), config.architecture);
    config.embeddingScale =
        static_cast<float>(reader.positive("embedding_scale", std::sqrt(static_cast<double>(config.hidden))));
    return config;
}

/// The largest models of two generations scale their queries by hidden / heads. Files do not say so.
void scaleByHidden(const ConfigReader &reader, int layersOfLargest, ModelConfig &config)
{
    if (config.layers != layersOfLargest || reader.has("attention.scale"))
        return;
    const int perHead = config.hidden / config.layer.front().heads;
    config.attentionScale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(perHead)));
}

/// Source: Gemma team 2024, arXiv:2403.08295.
ModelConfig readGemmaConfig(const Checkpoint &checkpoint)
{
    return readAnyGemma(checkpoint, {});
}

/// Windows in every other layer, capped scores and logits. Source: Gemma team 2024, arXiv:2408.00118.
ModelConfig readGemma2Config(const Checkpoint &checkpoint)
{
    ModelConfig config = readAnyGemma(checkpoint, {.windowPattern = 2, .window = 4096});
    const ConfigReader reader(checkpoint.metadata(), config.architecture);
    config.placement = NormPlacement::Both;
    config.attentionSoftCap = static_cast<float>(reader.zeroOrPositive("attn_logit_softcapping", 50.0));
    config.logitSoftCap = static_cast<float>(reader.zeroOrPositive("final_logit_softcapping", 30.0));
    scaleByHidden(reader, 46, config);
    return config;
}

/// Windows in five of six layers, which rotate by a base of their own. Source: Gemma team 2025, arXiv:2503.19786.
ModelConfig readGemma3Config(const Checkpoint &checkpoint)
{
    ModelConfig config = readAnyGemma(checkpoint, {.windowPattern = 6});
    const ConfigReader reader(checkpoint.metadata(), config.architecture);
    config.placement = NormPlacement::Both;
    config.queryKeyNorm = QueryKeyNorm::Head;
    if (!config.hasLocalRope())
        useLocalRope(config, reader, 10000.0);
    scaleByHidden(reader, 62, config);
    return config;
}

constexpr std::array namesOfBoth = {
    HfName{"model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm"},
    HfName{"model.layers.{}.pre_feedforward_layernorm", "blk.{}.ffn_norm"},
    HfName{"model.layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm"},
};

/// Folders store the weights of norms less 1.
void translateGemma(const HfConfig &config, HfKeys &keys)
{
    if (config.boolean("use_bidirectional_attention").value_or(false))
        config.refuseValue("use_bidirectional_attention", "false: tokens that see later ones are not supported");
    keys.set("norm_weight_offset", 1.0);
}

/// A cap that is null is none.
void translateGemma2(const HfConfig &config, HfKeys &keys)
{
    translateGemma(config, keys);
    for (const char *key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
        if (!config.has(key))
            keys.set(key, 0.0);
    }
}

/// The library's class knows the cap of scores and does not apply it, so a file that has it is of an unsure meaning.
void translateGemma3(const HfConfig &config, HfKeys &keys)
{
    translateGemma(config, keys);
    if (config.has("attn_logit_softcapping"))
        config.refuseValue("attn_logit_softcapping", "null: capped scores are not supported for this family");
}

} // namespace

ModelFamily gemmaFamily()
{
    HfFamily hf;
    hf.modelTypes = {"gemma"};
    hf.architectures = {"GemmaForCausalLM"};
    hf.activations = {"gelu_pytorch_tanh", "gelu"}; // early files say gelu and mean its approximation
    hf.defaults = R"({"head_dim": 256, "max_position_embeddings": 8192})";
    hf.translate = translateGemma;
    return {"gemma", readGemmaConfig, decoderTensors, loadDecoder, hf};
}

ModelFamily gemma2Family()
{
    HfFamily hf;
    hf.modelTypes = {"gemma2"};
    hf.architectures = {"Gemma2ForCausalLM"};
    hf.names = namesOfBoth;
    hf.defaults =
        R"({"head_dim": 256, "sliding_window": 4096, "sliding_window_pattern": 2, "query_pre_attn_scalar": 256,
                          "max_position_embeddings": 8192, "num_key_value_heads": 4,
                          "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0})";
    hf.translate = translateGemma2;
    return {"gemma2", readGemma2Config, decoderTensors, loadDecoder, hf};
}

ModelFamily gemma3Family()
{
    HfFamily hf;
    hf.modelTypes = {"gemma3_text", "gemma3"};
    hf.architectures = {"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"};
    hf.names = namesOfBoth;
    // The text part of a larger configuration states only what differs from these.
    hf.defaults = R"({"vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
                          "max_position_embeddings": 131072, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
                          "rope_local_base_freq": 10000.0, "query_pre_attn_scalar": 256, "sliding_window": 4096,
                          "sliding_window_pattern": 6})";
    hf.translate = translateGemma3;
    return {"gemma3", readGemma3Config, decoderTensors, loadDecoder, hf};
}

} // namespace engine
