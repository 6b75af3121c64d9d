// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/hf_translate.h"

#include "engine/core/printable.h"
#include "engine/models/config_limits.h"
#include "engine/models/model_config.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace engine {
namespace {

constexpr std::int64_t mostLayers = 1 << 16;
constexpr std::int64_t mostTokens = 1 << 24;

void translateSizes(const HfConfig &config, HfKeys &keys)
{
    const std::int64_t hidden = config.count("hidden_size", widest);
    const std::int64_t heads = config.count("num_attention_heads", mostHeads);
    keys.set("block_count", config.count("num_hidden_layers", mostLayers));
    keys.set("embedding_length", hidden);
    keys.set("context_length", config.count("max_position_embeddings", longestContext));
    keys.set("feed_forward_length", config.count("intermediate_size", widestInner));
    keys.set("attention.head_count", heads);
    const std::int64_t kvHeads = config.count("num_key_value_heads", mostHeads, heads);
    if (heads % kvHeads != 0)
        config.refuse("num_key_value_heads", std::to_string(kvHeads),
                      "a number that divides the " + std::to_string(heads) + " num_attention_heads");
    keys.set("attention.head_count_kv", kvHeads);
    keys.set("vocab_size", config.count("vocab_size", mostTokens));
    if (!config.has("head_dim") && hidden % heads != 0)
        config.refuse("hidden_size", std::to_string(hidden),
                      "a multiple of the " + std::to_string(heads) + " num_attention_heads");
    const std::int64_t headDim = config.count("head_dim", widest, hidden / heads);
    keys.set("attention.key_length", headDim);
    keys.set("attention.value_length", headDim);
}

std::optional<double> positive(const HfConfig &config, const char *key)
{
    const auto value = config.number(key);
    if (value && static_cast<float>(*value) <= 0.0F)
        config.refuseValue(key, "a number above 0");
    return value;
}

void translateNorm(const HfConfig &config, HfKeys &keys)
{
    for (const char *key : {"layer_norm_eps", "norm_epsilon", "layer_norm_epsilon"}) {
        if (const auto epsilon = positive(config, key))
            keys.set("attention.layer_norm_epsilon", *epsilon);
    }
    const auto epsilon = positive(config, "rms_norm_eps");
    if (epsilon || !keys.has("attention.layer_norm_epsilon"))
        keys.set("attention.layer_norm_rms_epsilon", epsilon.value_or(1e-6)); // of the library's classes
}

/// Numbers that go over as they are.
void translateScales(const HfConfig &config, HfKeys &keys)
{
    constexpr std::array<std::pair<const char *, const char *>, 7> same = {{
        {"embedding_multiplier", "embedding_scale"},
        {"residual_multiplier", "residual_scale"},
        {"attention_multiplier", "attention.scale"},
        {"logits_scaling", "logit_scale"},
        {"logit_scale", "logit_scale"},
        {"attn_logit_softcapping", "attn_logit_softcapping"},
        {"final_logit_softcapping", "final_logit_softcapping"},
    }};
    for (const auto &[from, to] : same) {
        if (const auto value = config.number(from))
            keys.set(to, *value);
    }
    if (const auto scalar = config.number("query_pre_attn_scalar")) {
        if (*scalar <= 0)
            config.refuseValue("query_pre_attn_scalar", "a number above 0");
        keys.set("attention.scale", 1.0 / std::sqrt(*scalar));
    }
}

std::vector<std::string_view> activationsOf(const HfFamily &family)
{
    std::vector<std::string_view> names = family.activations;
    for (const NamedActivation &each : namedActivations()) {
        if (family.activations.empty())
            names.push_back(each.name);
    }
    return names;
}

void translateActivation(const HfConfig &config, const HfFamily &family, HfKeys &keys)
{
    const std::vector<std::string_view> names = activationsOf(family);
    for (const char *key : {"hidden_activation", "hidden_act", "activation_function"}) {
        const auto name = config.text(key);
        if (!name)
            continue;
        if (std::find(names.begin(), names.end(), *name) != names.end()) {
            if (family.activations.empty())
                keys.set("hidden_activation", *name);
            return;
        }
        std::string known;
        for (const std::string_view each : names)
            known += (known.empty() ? "" : " or ") + std::string(each);
        config.refuse(key, inQuotes(*name), known + "; this family computes no other activation");
    }
}

/// One flag per layer from `layer_types`.
std::vector<bool> windowedByType(const HfConfig &config, int layers)
{
    const std::vector<std::string> types = config.texts("layer_types").value();
    if (types.size() != static_cast<std::size_t>(layers))
        config.refuse("layer_types", "a list of " + std::to_string(types.size()),
                      std::to_string(layers) + " entries, one per layer");
    std::vector<bool> windowed;
    for (const std::string &type : types) {
        if (type != "full_attention" && type != "sliding_attention")
            config.refuse("layer_types", "a list with " + inQuotes(type),
                          "full_attention and sliding_attention; other kinds of layers are not supported");
        windowed.push_back(type == "sliding_attention");
    }
    return windowed;
}

void copyCount(const HfConfig &config, HfKeys &keys, const char *from, const char *to, std::int64_t most,
               std::int64_t least = 1)
{
    if (config.has(from))
        keys.set(to, config.count(from, most, std::nullopt, least));
}

/// Which layers have experts, where some do not. Source: transformers, modeling_qwen2_moe.
void translateSparseLayers(const HfConfig &config, HfKeys &keys)
{
    const std::int64_t step = config.count("decoder_sparse_step", mostLayers, 1);
    const std::vector<std::int64_t> dense = config.integers("mlp_only_layers").value_or(std::vector<std::int64_t>{});
    if (step == 1 && dense.empty())
        return;
    const std::int64_t layers = config.count("num_hidden_layers", mostLayers);
    std::vector<bool> sparse;
    for (std::int64_t i = 0; i < layers; ++i)
        sparse.push_back((i + 1) % step == 0 && std::find(dense.begin(), dense.end(), i) == dense.end());
    keys.set("moe_layers", sparse);
}

void translateExperts(const HfConfig &config, HfKeys &keys)
{
    for (const char *key : {"num_local_experts", "num_experts", "n_routed_experts"})
        copyCount(config, keys, key, "expert_count", mostHeads, 0);
    if (!keys.has("expert_count"))
        return;
    const std::int64_t experts = keys.metadata().integer(keys.full("expert_count")).value_or(0);
    if (experts > 0)
        copyCount(config, keys, "num_experts_per_tok", "expert_used_count", experts);
    copyCount(config, keys, "moe_intermediate_size", "expert_feed_forward_length", widestInner);
    copyCount(config, keys, "shared_expert_intermediate_size", "expert_shared_feed_forward_length", widestInner);
    copyCount(config, keys, "n_shared_experts", "expert_shared_count", mostHeads, 0);
    if (const auto normed = config.boolean("norm_topk_prob"))
        keys.set("expert_weights_norm", *normed);
    translateSparseLayers(config, keys);
}

void copyIds(const HfConfig &config, std::vector<std::int64_t> &ids)
{
    for (const std::int64_t id : config.integers("eos_token_id").value_or(std::vector<std::int64_t>{})) {
        if (id >= 0 && std::find(ids.begin(), ids.end(), id) == ids.end())
            ids.push_back(id);
    }
}

} // namespace

void setWindowedLayers(const HfConfig &config, HfKeys &keys, const std::vector<bool> &windowed)
{
    if (std::find(windowed.begin(), windowed.end(), true) == windowed.end()) {
        if (keys.has("attention.sliding_window"))
            keys.set("attention.sliding_window", std::int64_t{0});
        return;
    }
    keys.set("attention.sliding_window", config.count("sliding_window", longestContext));
    keys.set("attention.sliding_window_pattern", windowed);
}

void translateWindow(const HfConfig &config, HfKeys &keys)
{
    const auto layers = static_cast<int>(config.count("num_hidden_layers", mostLayers));
    if (config.has("layer_types")) {
        setWindowedLayers(config, keys, windowedByType(config, layers));
        return;
    }
    if (!config.has("sliding_window") || config.boolean("use_sliding_window") == false)
        return;
    const std::int64_t pattern = config.count("sliding_window_pattern", mostLayers, 0, 0);
    const bool byLayer = config.boolean("use_sliding_window").value_or(false);
    const std::int64_t first = byLayer ? config.count("max_window_layers", longestContext, 0, 0) : 0;
    std::vector<bool> windowed;
    for (int i = 0; i < layers; ++i)
        windowed.push_back(pattern > 0 ? (i + 1) % pattern != 0 : i >= first);
    setWindowedLayers(config, keys, windowed);
}

void translateCommonKeys(const HfConfig &config, const HfFamily &family, HfKeys &keys)
{
    translateSizes(config, keys);
    translateNorm(config, keys);
    translateRope(config, keys);
    translateScales(config, keys);
    translateActivation(config, family, keys);
    translateWindow(config, keys);
    translateExperts(config, keys);
}

void translateGeneration(const HfConfig *generation, const HfConfig &config, Metadata &metadata)
{
    std::vector<std::int64_t> ends;
    if (generation != nullptr)
        copyIds(*generation, ends);
    copyIds(config, ends);
    if (!ends.empty())
        metadata.set("tokenizer.ggml.eos_token_ids", ends);
    if (generation == nullptr)
        return;
    constexpr std::array<std::pair<const char *, const char *>, 5> same = {{
        {"temperature", "temp"},
        {"top_k", "top_k"},
        {"top_p", "top_p"},
        {"min_p", "min_p"},
        {"repetition_penalty", "penalty_repeat"},
    }};
    for (const auto &[from, to] : same) {
        if (const auto value = generation->number(from))
            metadata.set(std::string("general.sampling.") + to, *value);
    }
    if (generation->boolean("do_sample") == false)
        metadata.set("general.sampling.temp", 0.0);
}

} // namespace engine
