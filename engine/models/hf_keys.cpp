// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/hf_keys.h"

#include <array>

namespace engine {
namespace {

struct KeyNames {
    std::string_view gguf;
    std::array<std::string_view, 4> config; ///< the first that is there counts, else the first
};

constexpr std::array keyNames = {
    KeyNames{"block_count", {"num_hidden_layers", "n_layer", "num_layers"}},
    KeyNames{"embedding_length", {"hidden_size", "n_embd"}},
    KeyNames{"feed_forward_length", {"intermediate_size", "n_inner", "ffn_hidden_size"}},
    KeyNames{"context_length", {"max_position_embeddings", "n_positions", "seq_length"}},
    KeyNames{"vocab_size", {"vocab_size", "padded_vocab_size"}},
    KeyNames{"attention.head_count", {"num_attention_heads", "n_head"}},
    KeyNames{"attention.head_count_kv", {"num_key_value_heads", "multi_query_group_num", "num_attention_heads"}},
    KeyNames{"attention.key_length", {"head_dim", "kv_channels", "kv_lora_rank", "hidden_size"}},
    KeyNames{"attention.value_length", {"head_dim", "kv_channels", "kv_lora_rank", "hidden_size"}},
    KeyNames{"attention.key_length_mla", {"qk_nope_head_dim"}},
    KeyNames{"attention.value_length_mla", {"v_head_dim"}},
    KeyNames{"attention.kv_lora_rank", {"kv_lora_rank"}},
    KeyNames{"attention.q_lora_rank", {"q_lora_rank"}},
    KeyNames{"attention.layer_norm_rms_epsilon", {"rms_norm_eps", "layernorm_epsilon", "layer_norm_eps"}},
    KeyNames{"attention.layer_norm_epsilon", {"layer_norm_eps", "norm_epsilon", "layer_norm_epsilon"}},
    KeyNames{"attention.sliding_window", {"sliding_window"}},
    KeyNames{"attention.sliding_window_pattern", {"layer_types", "sliding_window_pattern"}},
    KeyNames{"attention.scale", {"attention_multiplier", "query_pre_attn_scalar"}},
    KeyNames{"attention.clamp_kqv", {"clip_qkv"}},
    KeyNames{"attention.qk_norm", {"qk_layernorm", "use_qk_norm"}},
    KeyNames{"hidden_activation", {"hidden_activation", "hidden_act"}},
    KeyNames{"attn_logit_softcapping", {"attn_logit_softcapping"}},
    KeyNames{"final_logit_softcapping", {"final_logit_softcapping"}},
    KeyNames{"embedding_scale", {"embedding_multiplier", "scale_emb"}},
    KeyNames{"residual_scale", {"residual_multiplier", "scale_depth"}},
    KeyNames{"logit_scale", {"logits_scaling", "logit_scale", "dim_model_base"}},
    KeyNames{"rope.dimension_count", {"partial_rotary_factor", "qk_rope_head_dim", "head_dim", "rotary_dim"}},
    KeyNames{"rope.freq_base", {"rope_theta", "rotary_emb_base"}},
    KeyNames{"rope.freq_base_swa", {"rope_local_base_freq", "rope_theta"}},
    KeyNames{"rope.layers", {"no_rope_layers", "no_rope_layer_interval"}},
    KeyNames{"rope.scaling.type", {"rope_scaling.type"}},
    KeyNames{"rope.scaling.factor", {"rope_scaling.factor"}},
    KeyNames{"rope.scaling.attn_factor", {"rope_scaling.attention_factor"}},
    KeyNames{"rope.scaling.original_context_length", {"rope_scaling.original_max_position_embeddings"}},
    KeyNames{"rope.scaling.low_freq_factor", {"rope_scaling.low_freq_factor"}},
    KeyNames{"rope.scaling.high_freq_factor", {"rope_scaling.high_freq_factor"}},
    KeyNames{"rope.scaling.short_factors", {"rope_scaling.short_factor"}},
    KeyNames{"rope.scaling.long_factors", {"rope_scaling.long_factor"}},
    KeyNames{"rope.scaling.yarn_beta_fast", {"rope_scaling.beta_fast"}},
    KeyNames{"rope.scaling.yarn_beta_slow", {"rope_scaling.beta_slow"}},
    KeyNames{"rope.scaling.yarn_log_multiplier", {"rope_scaling.mscale_all_dim"}},
    KeyNames{"expert_count", {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"}},
    KeyNames{"expert_used_count", {"num_experts_per_tok", "moe_k", "moe_topk"}},
    KeyNames{"expert_shared_count", {"n_shared_experts"}},
    KeyNames{"expert_feed_forward_length", {"moe_intermediate_size", "intermediate_size"}},
    KeyNames{"expert_shared_feed_forward_length", {"shared_expert_intermediate_size", "shared_intermediate_size"}},
    KeyNames{"expert_group_count", {"n_group"}},
    KeyNames{"expert_group_used_count", {"topk_group"}},
    KeyNames{"expert_weights_norm", {"norm_topk_prob"}},
    KeyNames{"expert_weights_scale", {"routed_scaling_factor"}},
    KeyNames{"expert_gating_func", {"scoring_func"}},
    KeyNames{"leading_dense_block_count", {"first_k_dense_replace"}},
};

} // namespace

std::string configKeyOf(const HfConfig &config, std::string_view key)
{
    for (const KeyNames &names : keyNames) {
        if (names.gguf != key)
            continue;
        for (const std::string_view name : names.config) {
            if (!name.empty() && config.has(name))
                return std::string(name);
        }
        std::string name(names.config.front());
        constexpr std::string_view scaling = "rope_scaling.";
        if (name.starts_with(scaling) && !config.has("rope_scaling") && config.has("rope_parameters"))
            name.replace(0, scaling.size(), "rope_parameters.");
        return name;
    }
    return std::string(key);
}

} // namespace engine
