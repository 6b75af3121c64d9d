// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/hf_translate.h"
#include "engine/models/model_registry.h"

#include <array>

namespace engine {
namespace {

/// Llama and what shares its shape: SmolLM2, Mistral, TinyLlama and others.
/// Source: Touvron et al. 2023, arXiv:2302.13971; windows: Jiang et al. 2023, arXiv:2310.06825; experts: Jiang et al.
/// 2024, arXiv:2401.04088.
ModelConfig readLlamaConfig(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint, {.interleavedRope = true});
    refuseLogitScale(checkpoint, config);
    if (config.moe.experts > 0) // mixtral, which weighs by a softmax over the experts picked
        readMoe(checkpoint, config, {.normalise = true});
    return config;
}

/// The same with the other pairing. Source: LG AI Research 2024, arXiv:2408.03541.
ModelConfig readExaoneConfig(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint);
    refuseExperts(config);
    refuseLogitScale(checkpoint, config);
    return config;
}

/// What the class of mixtral fills in and the others do not.
void translateMixtral(const HfConfig &config, HfKeys &keys)
{
    if (!config.has("rope_theta") && !config.has("rope_parameters"))
        keys.set("rope.freq_base", 1e6);
}

/// Where config.json of a mistral says nothing about the window, the library's class has one; null is none.
void translateLlama(const HfConfig &config, HfKeys &keys)
{
    if (config.text("model_type") == "mixtral")
        translateMixtral(config, keys);
    if (config.text("model_type") != "mistral" || config.has("layer_types"))
        return;
    const HfConfig filled = config.withDefaults(R"({"sliding_window": 4096})");
    const std::int64_t layers = config.count("num_hidden_layers", 1 << 16);
    if (filled.has("sliding_window"))
        setWindowedLayers(filled, keys, std::vector<bool>(static_cast<std::size_t>(layers), true));
}

} // namespace

ModelFamily llamaFamily()
{
    // Experts of mixtral are named by what they compute: w2(act(w1 x) * w3 x).
    static constexpr std::array names = {
        HfName{"model.layers.{}.block_sparse_moe.gate", "blk.{}.ffn_gate_inp"},
        HfName{"model.layers.{}.block_sparse_moe.experts.{}.w1", "blk.{}.ffn_gate.{}"},
        HfName{"model.layers.{}.block_sparse_moe.experts.{}.w2", "blk.{}.ffn_down.{}"},
        HfName{"model.layers.{}.block_sparse_moe.experts.{}.w3", "blk.{}.ffn_up.{}"},
    };
    HfFamily hf;
    hf.modelTypes = {"llama", "mistral", "mixtral"};
    hf.architectures = {"LlamaForCausalLM", "MistralForCausalLM", "MixtralForCausalLM"};
    hf.names = names;
    hf.typeDefaults = {{"llama", R"({"max_position_embeddings": 2048})"},
                       {"mistral", R"({"max_position_embeddings": 131072, "num_key_value_heads": 8})"},
                       {"mixtral", R"({"max_position_embeddings": 131072, "num_key_value_heads": 8,
                           "rms_norm_eps": 1e-5, "num_local_experts": 8, "num_experts_per_tok": 2})"}};
    hf.translate = translateLlama;
    return {"llama", readLlamaConfig, decoderTensors, loadDecoder, hf};
}

ModelFamily internlm2Family()
{
    return {"internlm2", readLlamaConfig, decoderTensors, loadDecoder};
}

ModelFamily xverseFamily()
{
    return {"xverse", readLlamaConfig, decoderTensors, loadDecoder};
}

ModelFamily ernie45Family()
{
    return {"ernie4_5", readLlamaConfig, decoderTensors, loadDecoder};
}

ModelFamily exaoneFamily()
{
    return {"exaone", readExaoneConfig, decoderTensors, loadDecoder};
}

} // namespace engine
