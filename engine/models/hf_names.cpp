// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/hf_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <vector>

namespace engine {
namespace {

constexpr std::array names = {
    HfName{"model.embed_tokens", "token_embd"},
    HfName{"model.norm", "output_norm"},
    HfName{"lm_head", "output"},
    HfName{"model.layers.{}.input_layernorm", "blk.{}.attn_norm"},
    HfName{"model.layers.{}.post_attention_layernorm", "blk.{}.ffn_norm"},
    HfName{"model.layers.{}.self_attn.q_proj", "blk.{}.attn_q"},
    HfName{"model.layers.{}.self_attn.k_proj", "blk.{}.attn_k"},
    HfName{"model.layers.{}.self_attn.v_proj", "blk.{}.attn_v"},
    HfName{"model.layers.{}.self_attn.o_proj", "blk.{}.attn_output"},
    HfName{"model.layers.{}.self_attn.qkv_proj", "blk.{}.attn_qkv"},
    HfName{"model.layers.{}.self_attn.q_norm", "blk.{}.attn_q_norm"},
    HfName{"model.layers.{}.self_attn.k_norm", "blk.{}.attn_k_norm"},
    HfName{"model.layers.{}.mlp.gate_proj", "blk.{}.ffn_gate"},
    HfName{"model.layers.{}.mlp.up_proj", "blk.{}.ffn_up"},
    HfName{"model.layers.{}.mlp.down_proj", "blk.{}.ffn_down"},
    HfName{"model.layers.{}.mlp.gate_up_proj", "blk.{}.ffn_up"}, // both in one, as GGUF has it
    HfName{"model.layers.{}.mlp.gate", "blk.{}.ffn_gate_inp"},
    HfName{"model.layers.{}.mlp.experts.{}.gate_proj", "blk.{}.ffn_gate.{}"},
    HfName{"model.layers.{}.mlp.experts.{}.up_proj", "blk.{}.ffn_up.{}"},
    HfName{"model.layers.{}.mlp.experts.{}.down_proj", "blk.{}.ffn_down.{}"},
    HfName{"model.layers.{}.mlp.experts.gate_up_proj", "blk.{}.ffn_gate", HfForm::ExpertsGateUp},
    HfName{"model.layers.{}.mlp.experts.down_proj", "blk.{}.ffn_down", HfForm::Experts},
};

bool startsWithAny(std::string_view name, std::initializer_list<std::string_view> starts)
{
    for (const std::string_view start : starts) {
        if (name.starts_with(start))
            return true;
    }
    return false;
}

/// The numbers that stand for "{}" when `name` has the form of `pattern`.
std::optional<std::vector<std::string_view>> numbersOf(std::string_view name, std::string_view pattern)
{
    std::vector<std::string_view> numbers;
    std::size_t at = 0;
    while (!pattern.empty()) {
        const std::size_t hole = pattern.find("{}");
        const std::string_view literal = pattern.substr(0, hole);
        if (name.substr(at, literal.size()) != literal)
            return std::nullopt;
        at += literal.size();
        if (hole == std::string_view::npos)
            break;
        const std::size_t end = std::min(name.find_first_not_of("0123456789", at), name.size());
        if (end == at || end - at > 9)
            return std::nullopt;
        numbers.push_back(name.substr(at, end - at));
        at = end;
        pattern.remove_prefix(hole + 2);
    }
    return at == name.size() ? std::optional(numbers) : std::nullopt;
}

std::string filled(std::string_view pattern, const std::vector<std::string_view> &numbers)
{
    std::string text;
    for (const std::string_view number : numbers) {
        const std::size_t hole = pattern.find("{}");
        text += pattern.substr(0, hole);
        if (hole == std::string_view::npos)
            return text;
        text += number;
        pattern.remove_prefix(hole + 2);
    }
    return text + std::string(pattern);
}

std::optional<HfMatch> matchRow(std::string_view whole, const HfName &row)
{
    std::string_view module = whole;
    std::string_view ending;
    for (const std::string_view each : {".weight", ".bias"}) {
        if (whole.ends_with(each)) {
            module = whole.substr(0, whole.size() - each.size());
            ending = each;
        }
    }
    auto numbers = numbersOf(module, row.hf);
    if (!numbers) {
        numbers = numbersOf(whole, row.hf);
        ending = {};
    }
    if (!numbers)
        return std::nullopt;
    HfMatch match{filled(row.gguf, *numbers), row.form, -1};
    if (!ending.empty())
        match.gguf += ending;
    else if (!match.gguf.ends_with(".weight") && !match.gguf.ends_with(".bias"))
        match.gguf += ".weight";
    if (!numbers->empty())
        std::from_chars(numbers->front().data(), numbers->front().data() + numbers->front().size(), match.layer);
    return match;
}

} // namespace

std::span<const HfName> commonHfNames()
{
    return names;
}

std::string plainHfName(std::string_view name)
{
    constexpr std::string_view outer = "language_model.";
    constexpr std::string_view inner = "model.language_model.";
    if (name.starts_with(inner))
        return "model." + std::string(name.substr(inner.size()));
    if (name.starts_with(outer))
        name.remove_prefix(outer.size());
    // What was saved without its head has no "model." either.
    if (startsWithAny(name, {"layers.", "embed_tokens.", "norm."}))
        return "model." + std::string(name);
    return std::string(name);
}

std::optional<HfMatch> matchHfName(std::string_view name, std::span<const HfName> own)
{
    const std::string plain = plainHfName(name);
    for (const std::span<const HfName> table : {own, commonHfNames()}) {
        for (const HfName &row : table) {
            if (auto match = matchRow(plain, row))
                return match;
        }
    }
    return std::nullopt;
}

std::string hfNameOf(std::string_view gguf, std::span<const HfName> own)
{
    for (const std::span<const HfName> table : {own, commonHfNames()}) {
        for (const HfName &row : table) {
            if (const auto match = matchRow(gguf, {row.gguf, row.hf, row.form})) // the other way round
                return match->gguf;
        }
    }
    return std::string(gguf);
}

bool isDerivedHfTensor(std::string_view name)
{
    return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attn.masked_bias") || name.ends_with(".attn.bias")
        || name.ends_with(".rotary_emb.cos_cached") || name.ends_with(".rotary_emb.sin_cached");
}

} // namespace engine
