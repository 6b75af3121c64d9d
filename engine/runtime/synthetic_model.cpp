// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/probe.h"
#include "engine/io/gguf_writer.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string_view>

namespace engine {
namespace {

/// Random half-precision numbers of at most about `range`, rounded down to a power of two: sign and fraction are
/// random, the exponent is one of the four below.
std::vector<std::byte> randomHalves(std::int64_t count, float range, std::mt19937_64 &random)
{
    const int exponent = std::clamp(static_cast<int>(std::floor(std::log2(range))) + 15, 5, 30);
    std::vector<std::byte> bytes(static_cast<std::size_t>(count) * 2);
    for (std::size_t i = 0; i < bytes.size(); i += 2) {
        const std::uint64_t bits = random() >> 20U;
        const auto power = static_cast<std::uint64_t>(exponent) - 1 - ((bits >> 11U) & 3U);
        const std::uint64_t half = ((bits & 1U) << 15U) | (power << 10U) | ((bits >> 1U) & 0x3FFU);
        bytes[i] = static_cast<std::byte>(half & 0xFFU);
        bytes[i + 1] = static_cast<std::byte>(half >> 8U);
    }
    return bytes;
}

Metadata metadataOf(const ModelShape &shape)
{
    Metadata metadata;
    const auto number = [&metadata](const std::string &key, int value) {
        metadata.add(key, static_cast<std::int64_t>(value), "uint32");
    };
    metadata.add("general.architecture", std::string("llama"), "string");
    metadata.add("general.name", shape.name, "string");
    number("llama.block_count", shape.layers);
    number("llama.context_length", shape.contextLength);
    number("llama.embedding_length", shape.hidden);
    number("llama.feed_forward_length", shape.inner);
    number("llama.attention.head_count", shape.heads);
    number("llama.attention.head_count_kv", shape.kvHeads);
    number("llama.attention.key_length", shape.headDim);
    number("llama.attention.value_length", shape.headDim);
    number("llama.rope.dimension_count", shape.headDim);
    metadata.add("llama.attention.layer_norm_rms_epsilon", 1e-5, "float32");
    metadata.add("llama.rope.freq_base", 10000.0, "float32");
    std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
    std::vector<std::int64_t> types{2, 3, 3}; // unknown, control, control
    std::vector<double> scores(static_cast<std::size_t>(shape.vocab));
    for (int id = 3; id < shape.vocab; ++id) {
        constexpr std::string_view digits = "0123456789ABCDEF";
        const auto byte = static_cast<std::size_t>(id - 3);
        tokens.push_back(id < 259 ? std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">"
                                  : "t" + std::to_string(id));
        types.push_back(id < 259 ? 6 : 1); // byte, normal
    }
    metadata.add("tokenizer.ggml.model", std::string("llama"), "string");
    metadata.add("tokenizer.ggml.tokens", std::move(tokens), "array of string");
    metadata.add("tokenizer.ggml.scores", std::move(scores), "array of float32");
    metadata.add("tokenizer.ggml.token_type", std::move(types), "array of int32");
    number("tokenizer.ggml.bos_token_id", 1);
    number("tokenizer.ggml.eos_token_id", 2);
    return metadata;
}

std::vector<GgufTensorPlan> tensorsOf(const ModelShape &shape)
{
    const std::int64_t queries = std::int64_t{shape.heads} * shape.headDim;
    const std::int64_t keys = std::int64_t{shape.kvHeads} * shape.headDim;
    std::vector<GgufTensorPlan> plans{{"token_embd.weight", {shape.vocab, shape.hidden}},
                                      {"output_norm.weight", {shape.hidden}},
                                      {"output.weight", {shape.vocab, shape.hidden}}};
    for (int i = 0; i < shape.layers; ++i) {
        const std::string layer = "blk." + std::to_string(i) + ".";
        plans.push_back({layer + "attn_norm.weight", {shape.hidden}});
        plans.push_back({layer + "attn_q.weight", {queries, shape.hidden}});
        plans.push_back({layer + "attn_k.weight", {keys, shape.hidden}});
        plans.push_back({layer + "attn_v.weight", {keys, shape.hidden}});
        plans.push_back({layer + "attn_output.weight", {shape.hidden, queries}});
        plans.push_back({layer + "ffn_norm.weight", {shape.hidden}});
        plans.push_back({layer + "ffn_gate.weight", {shape.inner, shape.hidden}});
        plans.push_back({layer + "ffn_up.weight", {shape.inner, shape.hidden}});
        plans.push_back({layer + "ffn_down.weight", {shape.hidden, shape.inner}});
    }
    return plans;
}

} // namespace

void writeSyntheticModel(const std::string &path, const ModelShape &shape, std::uint64_t seed)
{
    const std::vector<GgufTensorPlan> plans = tensorsOf(shape);
    GgufWriter writer(path, metadataOf(shape), plans);
    std::mt19937_64 random(seed);
    for (const GgufTensorPlan &plan : plans) {
        if (plan.shape.size() == 1) {
            const std::vector<float> ones(static_cast<std::size_t>(plan.shape[0]), 1.0F);
            writer.begin(kernels::DType::F32);
            writer.append(std::as_bytes(std::span(ones)));
            continue;
        }
        writer.begin(kernels::DType::F16);
        const float range = 2.0F / std::sqrt(static_cast<float>(plan.shape[1]));
        writer.append(randomHalves(plan.shape[0] * plan.shape[1], range, random));
    }
    (void)writer.finish();
}

} // namespace engine
