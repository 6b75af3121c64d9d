// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/model_registry.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace engine {
namespace {

double yarnGrowth(double factor)
{
    return factor > 1.0 ? std::log(factor) : 0.0;
}

/// What yarn multiplies cosines and sines by, "temperature", and the scores, "scale", are one number in files that give
/// no yarn_log_multiplier m; in those that do, the temperature is attn_factor alone, and the scale has
/// (1 + m * ln(factor)) squared beside it.
/// Source: ggml-org/llama.cpp, src/models/deepseek2.cpp and src/llama-context.cpp.
void applyMscale(const ConfigReader &reader, ModelConfig &config)
{
    if (config.rope.scaling != RopeScaling::Yarn)
        return;
    const double growth = yarnGrowth(config.rope.factor);
    const double multiplier = reader.number("rope.scaling.yarn_log_multiplier", 0.0);
    if (multiplier != 0.0)
        config.rope.attentionFactor /= 1.0 + 0.1 * growth;
    const double temperature = config.rope.attentionFactor * (1.0 + 0.1 * growth);
    const double scale = temperature * (1.0 + multiplier * growth);
    config.attentionScale = static_cast<float>(config.attentionScale * scale * scale);
}

/// Latent attention, dense layers first, then experts with shared ones. V2 and V3 differ by what the keys say.
/// Source: DeepSeek-AI 2024, arXiv:2405.04434 and arXiv:2412.19437.
ModelConfig readDeepseek2Config(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint, {.interleavedRope = true, .latent = true});
    refuseLogitScale(checkpoint, config);
    const ConfigReader reader(checkpoint.metadata(), config.architecture);
    config.latent.normEpsilon =
        static_cast<float>(reader.positive("attention.latent_norm_epsilon", config.normEpsilon));
    config.latent.fused = checkpoint.find("blk.0.attn_kv_b.weight") != nullptr;
    applyMscale(reader, config);
    if (config.moe.experts > 0)
        readMoe(checkpoint, config, {});
    return config;
}

void translateLatent(const HfConfig &config, HfKeys &keys)
{
    constexpr std::int64_t most = 1024;
    const std::int64_t rotary = config.count("qk_rope_head_dim", most);
    const std::int64_t rank = config.count("kv_lora_rank", most);
    keys.set("attention.kv_lora_rank", rank);
    if (config.has("q_lora_rank"))
        keys.set("attention.q_lora_rank", config.count("q_lora_rank", 1 << 20));
    keys.set("attention.key_length", rank + rotary);
    keys.set("attention.value_length", rank);
    keys.set("attention.key_length_mla", config.count("qk_nope_head_dim", most) + rotary);
    keys.set("attention.value_length_mla", config.count("v_head_dim", most));
    keys.set("attention.head_count_kv", std::int64_t{1});
    keys.set("rope.dimension_count", rotary);
    keys.set("attention.latent_norm_epsilon", 1e-6); // of the library's classes, whatever rms_norm_eps is
    keys.set("rope.interleaved", config.boolean("rope_interleave").value_or(true));
}

/// The keys that applyMscale() reads, from temperature and scale of the library's class: the first is what the common
/// translation gives, the second grows by mscale_all_dim. Source: transformers, modeling_deepseek_v3.
void translateMscale(HfKeys &keys)
{
    const Metadata &metadata = keys.metadata();
    const auto number = [&](const char *key) { return metadata.number(keys.full(key)).value_or(0.0); };
    const std::string *type = metadata.text(keys.full("rope.scaling.type"));
    const double growth = yarnGrowth(number("rope.scaling.factor"));
    if (type == nullptr || *type != "yarn" || growth == 0.0)
        return;
    const double temperature = number("rope.scaling.attn_factor") * (1.0 + 0.1 * growth);
    const double scale = 1.0 + number("rope.scaling.yarn_log_multiplier") * growth;
    const double multiplier = (scale / temperature - 1.0) / growth;
    if (std::abs(multiplier) < 1e-9) { // as if there were none: attn_factor stays beside 1 + 0.1 * growth
        keys.set("rope.scaling.yarn_log_multiplier", 0.0);
        return;
    }
    keys.set("rope.scaling.yarn_log_multiplier", multiplier);
    keys.set("rope.scaling.attn_factor", temperature);
}

void translateRouter(const HfConfig &config, HfKeys &keys, bool third)
{
    constexpr std::int64_t most = 65536;
    const std::string method = config.text("topk_method").value_or(third ? "noaux_tc" : "greedy");
    if (method != "greedy" && method != "group_limited_greedy" && method != "noaux_tc")
        config.refuseValue("topk_method", "greedy, group_limited_greedy or noaux_tc; others are not supported");
    const std::string scores = config.text("scoring_func").value_or(third ? "sigmoid" : "softmax");
    if (scores != "softmax" && scores != "sigmoid")
        config.refuseValue("scoring_func", "softmax or sigmoid; others are not supported");
    keys.set("expert_gating_func", std::int64_t{scores == "softmax" ? 1 : 2});
    keys.set("expert_group_rule", std::string(method == "noaux_tc" ? "top2" : "max"));
    if (method != "greedy" && config.has("n_group")) {
        keys.set("expert_group_count", config.count("n_group", most));
        keys.set("expert_group_used_count", config.count("topk_group", most));
    }
    keys.set("expert_weights_scale", config.number("routed_scaling_factor").value_or(third ? 2.5 : 1.0));
    if (!third) // the library's class of V2 never norms the weights
        keys.set("expert_weights_norm", false);
    else if (!keys.has("expert_weights_norm"))
        keys.set("expert_weights_norm", true);
}

void translateDeepseek2(const HfConfig &config, HfKeys &keys)
{
    translateLatent(config, keys);
    translateMscale(keys);
    if (!keys.has("expert_count"))
        return;
    if (config.count("moe_layer_freq", 1 << 20, 1) != 1)
        config.refuseValue("moe_layer_freq", "1: experts in some of the later layers only are not supported");
    const bool third = config.text("model_type").value_or("") == "deepseek_v3";
    const std::int64_t dense = config.count("first_k_dense_replace", 1 << 20, third ? 3 : 0, 0);
    keys.set("leading_dense_block_count", std::min(dense, config.count("num_hidden_layers", 1 << 16)));
    translateRouter(third ? config.withDefaults(R"({"n_group": 8, "topk_group": 4})") : config, keys, third);
}

} // namespace

ModelFamily deepseek2Family()
{
    static constexpr std::array names = {
        HfName{"model.layers.{}.self_attn.q_a_proj", "blk.{}.attn_q_a"},
        HfName{"model.layers.{}.self_attn.q_a_layernorm", "blk.{}.attn_q_a_norm"},
        HfName{"model.layers.{}.self_attn.q_b_proj", "blk.{}.attn_q_b"},
        HfName{"model.layers.{}.self_attn.kv_a_proj_with_mqa", "blk.{}.attn_kv_a_mqa"},
        HfName{"model.layers.{}.self_attn.kv_a_layernorm", "blk.{}.attn_kv_a_norm"},
        HfName{"model.layers.{}.self_attn.kv_b_proj", "blk.{}.attn_kv_b"},
        HfName{"model.layers.{}.mlp.gate.e_score_correction_bias", "blk.{}.exp_probs_b.bias"},
        HfName{"model.layers.{}.mlp.shared_experts.gate_proj", "blk.{}.ffn_gate_shexp"},
        HfName{"model.layers.{}.mlp.shared_experts.up_proj", "blk.{}.ffn_up_shexp"},
        HfName{"model.layers.{}.mlp.shared_experts.down_proj", "blk.{}.ffn_down_shexp"},
    };
    HfFamily hf;
    hf.modelTypes = {"deepseek_v2", "deepseek_v3"};
    hf.architectures = {"DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM"};
    hf.names = names;
    hf.typeDefaults = {{"deepseek_v2", R"({"max_position_embeddings": 2048})"},
                       {"deepseek_v3", R"({"max_position_embeddings": 4096})"}};
    hf.translate = translateDeepseek2;
    return {"deepseek2", readDeepseek2Config, decoderTensors, loadDecoder, hf};
}

} // namespace engine
