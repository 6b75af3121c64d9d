// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/hf_translate.h"
#include "engine/models/model_registry.h"

#include <array>

namespace engine {
namespace {

/// Biases on queries, keys and values, and an expert that all tokens take, weighed by a gate of its own.
/// Source: Yang et al. 2024, arXiv:2407.10671, section 2.2.2.
ModelConfig readQwen2MoeConfig(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint);
    refuseLogitScale(checkpoint, config);
    const ConfigReader reader(checkpoint.metadata(), config.architecture);
    config.attentionBias = reader.flag("attention.bias", true);
    readMoe(checkpoint, config, {.sharedGate = true});
    return config;
}

/// Normed queries and keys; weights of the experts picked add up to 1 unless the file says otherwise.
/// Source: Yang et al. 2025, arXiv:2505.09388.
ModelConfig readQwen3MoeConfig(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint);
    refuseLogitScale(checkpoint, config);
    config.queryKeyNorm = QueryKeyNorm::Head;
    readMoe(checkpoint, config, {.normalise = true});
    return config;
}

/// The classes of the library do not norm the weights where config.json is silent.
void translateQwenMoe(const HfConfig &, HfKeys &keys)
{
    if (!keys.has("expert_weights_norm"))
        keys.set("expert_weights_norm", false);
}

/// Every other one of the first max_window_layers has the window. Source: transformers, models/qwen2_moe.
void translateQwen2Moe(const HfConfig &config, HfKeys &keys)
{
    translateQwenMoe(config, keys);
    keys.set("attention.bias", config.boolean("qkv_bias").value_or(true));
    if (config.boolean("use_sliding_window") != true || config.has("layer_types"))
        return;
    const std::int64_t last = config.count("max_window_layers", 1 << 30, std::nullopt, 0);
    std::vector<bool> windowed;
    for (std::int64_t i = 0; i < config.count("num_hidden_layers", 1 << 16); ++i)
        windowed.push_back(i % 2 == 0 && i < last);
    setWindowedLayers(config, keys, windowed);
}

/// All layers have the window where one does. Source: transformers, models/qwen3_moe.
void translateQwen3Moe(const HfConfig &config, HfKeys &keys)
{
    translateQwenMoe(config, keys);
    const auto layers = static_cast<std::size_t>(config.count("num_hidden_layers", 1 << 16));
    setWindowedLayers(config, keys, std::vector<bool>(layers, config.boolean("use_sliding_window") == true));
}

} // namespace

ModelFamily qwen2MoeFamily()
{
    static constexpr std::array names = {
        HfName{"model.layers.{}.mlp.shared_expert.gate_proj", "blk.{}.ffn_gate_shexp"},
        HfName{"model.layers.{}.mlp.shared_expert.up_proj", "blk.{}.ffn_up_shexp"},
        HfName{"model.layers.{}.mlp.shared_expert.down_proj", "blk.{}.ffn_down_shexp"},
        HfName{"model.layers.{}.mlp.shared_expert_gate", "blk.{}.ffn_gate_inp_shexp"},
    };
    HfFamily hf;
    hf.modelTypes = {"qwen2_moe"};
    hf.architectures = {"Qwen2MoeForCausalLM"};
    hf.defaults = R"({"use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 28,
                      "max_position_embeddings": 32768})";
    hf.names = names;
    hf.translate = translateQwen2Moe;
    return {"qwen2moe", readQwen2MoeConfig, decoderTensors, loadDecoder, hf};
}

ModelFamily qwen3MoeFamily()
{
    HfFamily hf;
    hf.modelTypes = {"qwen3_moe"};
    hf.architectures = {"Qwen3MoeForCausalLM"};
    hf.defaults = R"({"use_sliding_window": false, "sliding_window": 4096, "max_position_embeddings": 32768,
                      "num_key_value_heads": 4})";
    hf.translate = translateQwen3Moe;
    return {"qwen3moe", readQwen3MoeConfig, decoderTensors, loadDecoder, hf};
}

} // namespace engine
