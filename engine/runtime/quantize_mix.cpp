// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/quantize_mix.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace engine {

namespace {

using kernels::DType;

constexpr std::array<QuantizeMix, 25> mixes = {{
    {"F32", DType::F32, 0},        {"F16", DType::F16, 1},      {"BF16", DType::BF16, 32},
    {"Q4_0", DType::Q4_0, 2},      {"Q4_1", DType::Q4_1, 3},    {"Q5_0", DType::Q5_0, 8},
    {"Q5_1", DType::Q5_1, 9},      {"Q8_0", DType::Q8_0, 7},    {"Q2_K", DType::Q2_K, 10},
    {"Q3_K", DType::Q3_K, 11},     {"Q3_K_S", DType::Q3_K, 11}, {"Q3_K_M", DType::Q3_K, 12},
    {"Q3_K_L", DType::Q3_K, 13},   {"Q4_K", DType::Q4_K, 14},   {"Q4_K_S", DType::Q4_K, 14},
    {"Q4_K_M", DType::Q4_K, 15},   {"Q5_K", DType::Q5_K, 16},   {"Q5_K_S", DType::Q5_K, 16},
    {"Q5_K_M", DType::Q5_K, 17},   {"Q6_K", DType::Q6_K, 18},   {"IQ4_NL", DType::IQ4_NL, 25},
    {"IQ4_XS", DType::IQ4_XS, 30}, {"MXFP4", DType::MXFP4, 38}, {"TQ1_0", DType::TQ1_0, 36},
    {"TQ2_0", DType::TQ2_0, 37},
}};

bool sameText(std::string_view a, std::string_view b)
{
    const auto upper = [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; };
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [&](char left, char right) { return upper(left) == upper(right); });
}

std::vector<std::string_view> partsOf(std::string_view name)
{
    std::vector<std::string_view> parts;
    for (std::size_t start = 0; start <= name.size();) {
        const std::size_t end = std::min(name.find('.', start), name.size());
        parts.push_back(name.substr(start, end - start));
        start = end + 1;
    }
    return parts;
}

/// The layer of "blk.N....", or -1.
int layerOf(std::string_view tensor)
{
    const std::vector<std::string_view> parts = partsOf(tensor);
    int layer = -1;
    if (parts.size() > 1 && parts[0] == "blk")
        std::from_chars(parts[1].data(), parts[1].data() + parts[1].size(), layer);
    return layer;
}

/// What a matrix does, without layer and expert: "attn_v", "ffn_down"; experts count as their dense kind.
std::string_view roleOf(std::string_view tensor)
{
    const std::vector<std::string_view> parts = partsOf(tensor);
    std::string_view role = parts.size() > 2 && parts[0] == "blk" ? parts[2] : parts[0];
    for (const std::string_view suffix : {"_exps", "_shexp"}) {
        if (role.ends_with(suffix))
            role.remove_suffix(suffix.size());
    }
    return role;
}

/// The first and last eighth of the layers and every third between.
bool needsMoreBits(int layer, int layers)
{
    return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

DType valueType(const QuantizeMix &mix, const MixModel &model, int layer)
{
    const bool grouped = model.kvHeads > 0 && model.heads / model.kvHeads >= 4;
    DType type = mix.type;
    if (mix.name == "Q2_K")
        type = grouped ? DType::Q4_K : DType::Q3_K;
    else if (mix.name == "Q3_K_M")
        type = layer < 2 ? DType::Q5_K : DType::Q4_K;
    else if (mix.name == "Q3_K_L")
        type = DType::Q5_K;
    else if ((mix.name == "Q4_K_M" || mix.name == "Q5_K_M") && needsMoreBits(layer, model.layers))
        type = DType::Q6_K;
    else if (mix.name == "Q4_K_S" && layer < 4)
        type = DType::Q5_K;
    const bool large = model.layers == 80 && model.heads != model.kvHeads; // values shared by 8 heads: cheap to keep
    if (large && (type == DType::Q3_K || type == DType::Q4_K))
        type = DType::Q5_K;
    return type;
}

DType downType(const QuantizeMix &mix, const MixModel &model, int layer)
{
    const bool more = needsMoreBits(layer, model.layers);
    if (mix.name == "Q2_K")
        return DType::Q3_K;
    if (mix.name == "Q3_K_M")
        return layer < model.layers / 16 ? DType::Q5_K : DType::Q4_K;
    if (mix.name == "Q3_K_L")
        return DType::Q5_K;
    if ((mix.name == "Q4_K_M" || mix.name == "Q5_K_M") && more)
        return DType::Q6_K;
    if (layer < model.layers / 8) {
        if (mix.name == "Q4_K_S")
            return DType::Q5_K;
        if (model.hasImportance && mix.name == "Q4_0")
            return DType::Q4_1;
        if (model.hasImportance && mix.name == "Q5_0")
            return DType::Q5_1;
    }
    return mix.type;
}

DType attentionOutputType(const QuantizeMix &mix, const MixModel &model)
{
    if (model.experts == 8 && (mix.type == DType::Q2_K || mix.type == DType::Q3_K || mix.type == DType::Q4_K))
        return DType::Q5_K;
    if (mix.name == "Q2_K")
        return DType::Q3_K;
    if (mix.name == "Q3_K_M")
        return DType::Q4_K;
    return mix.name == "Q3_K_L" ? DType::Q5_K : mix.type;
}

DType fusedAttentionType(const QuantizeMix &mix)
{
    if (mix.name == "Q3_K_M" || mix.name == "Q3_K_L")
        return DType::Q4_K;
    if (mix.name == "Q4_K_M")
        return DType::Q5_K;
    return mix.name == "Q5_K_M" ? DType::Q6_K : mix.type;
}

/// Parts of a name that Hugging Face and GGUF call differently; empty: GGUF has no such part.
constexpr std::array<std::pair<std::string_view, std::string_view>, 14> otherNames = {{
    {"model", ""},
    {"self_attn", ""},
    {"mlp", ""},
    {"layers", "blk"},
    {"q_proj", "attn_q"},
    {"k_proj", "attn_k"},
    {"v_proj", "attn_v"},
    {"o_proj", "attn_output"},
    {"qkv_proj", "attn_qkv"},
    {"gate_proj", "ffn_gate"},
    {"up_proj", "ffn_up"},
    {"down_proj", "ffn_down"},
    {"lm_head", "output"},
    {"embed_tokens", "token_embd"},
}};

bool matchesLetters(std::string_view pattern, std::string_view text)
{
    std::size_t star = std::string_view::npos;
    std::size_t retry = 0;
    std::size_t p = 0;
    for (std::size_t t = 0; t < text.size();) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            retry = t;
        } else if (p < pattern.size() && pattern[p] == text[t]) {
            ++p;
            ++t;
        } else if (star != std::string_view::npos) {
            p = star + 1;
            t = ++retry;
        } else {
            return false;
        }
    }
    while (p < pattern.size() && pattern[p] == '*')
        ++p;
    return p == pattern.size();
}

/// A dense name also means the experts of that kind.
bool matchesPart(std::string_view pattern, std::string_view part)
{
    for (const std::string_view suffix : {"_exps", "_shexp"}) {
        if (part.ends_with(suffix) && matchesLetters(pattern, part.substr(0, part.size() - suffix.size())))
            return true;
    }
    return matchesLetters(pattern, part);
}

} // namespace

const QuantizeMix *findQuantizeMix(std::string_view name)
{
    const auto found =
        std::find_if(mixes.begin(), mixes.end(), [&](const QuantizeMix &mix) { return sameText(mix.name, name); });
    return found == mixes.end() ? nullptr : &*found;
}

std::vector<std::string> quantizeMixNames()
{
    std::vector<std::string> names;
    for (const QuantizeMix &mix : mixes)
        names.emplace_back(mix.name);
    return names;
}

DType mixedType(const QuantizeMix &mix, const MixModel &model, std::string_view tensor)
{
    if (!kernels::info(mix.type).quantized)
        return mix.type;
    const std::string_view role = roleOf(tensor);
    if (role == (model.hasOutput ? "output" : "token_embd"))
        return mix.type == DType::Q8_0 ? DType::Q8_0 : DType::Q6_K;
    if (role == "token_embd" && (mix.type == DType::TQ1_0 || mix.type == DType::TQ2_0))
        return DType::Q4_K;
    const int layer = layerOf(tensor);
    if ((role == "attn_v" || role == "attn_k") && model.experts == 8 && mix.name.find("_K") != std::string_view::npos)
        return DType::Q8_0; // small beside the experts
    if (role == "attn_v")
        return valueType(mix, model, layer);
    if (role == "ffn_down")
        return downType(mix, model, layer);
    if (role == "attn_output")
        return attentionOutputType(mix, model);
    return role == "attn_qkv" ? fusedAttentionType(mix) : mix.type;
}

DType fittingType(DType type, std::int64_t columns)
{
    const auto fits = [columns](DType candidate) { return columns % kernels::info(candidate).blockElements == 0; };
    if (fits(type))
        return type;
    DType other = DType::F16;
    switch (type) {
    case DType::Q2_K:
    case DType::Q3_K:
    case DType::TQ1_0:
    case DType::TQ2_0:
        other = DType::Q4_0;
        break;
    case DType::Q4_K:
        other = DType::Q5_0;
        break;
    case DType::Q5_K:
        other = DType::Q5_1;
        break;
    case DType::Q6_K:
        other = DType::Q8_0;
        break;
    case DType::IQ4_XS:
        other = DType::IQ4_NL;
        break;
    default:
        break;
    }
    return fits(other) ? other : DType::F16;
}

bool isQuantizedMatrix(std::string_view tensor, const std::vector<std::int64_t> &shape)
{
    if (shape.size() < 2 || !tensor.ends_with(".weight"))
        return false;
    const std::string_view role = roleOf(tensor);
    const bool kept = role.starts_with("ffn_gate_inp") || role == "position_embd" || role == "token_types"
        || role.ends_with("_norm") || role == "rope_freqs";
    return !kept;
}

bool matchesTensor(std::string_view pattern, std::string_view tensor)
{
    std::vector<std::string_view> wanted;
    for (const std::string_view part : partsOf(pattern)) {
        const auto other =
            std::find_if(otherNames.begin(), otherNames.end(), [&](const auto &names) { return names.first == part; });
        const std::string_view name = other == otherNames.end() ? part : other->second;
        if (!name.empty())
            wanted.push_back(name);
    }
    const std::vector<std::string_view> parts = partsOf(tensor);
    for (std::size_t start = 0; !wanted.empty() && start + wanted.size() <= parts.size(); ++start) {
        if (std::equal(wanted.begin(), wanted.end(), parts.begin() + static_cast<std::ptrdiff_t>(start), matchesPart))
            return true;
    }
    return false;
}

} // namespace engine
