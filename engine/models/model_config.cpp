// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/model_config.h"

#include "engine/models/config_reader.h"
#include "engine/models/tensor_names.h"
#include "engine/text/utf8.h"

#include <algorithm>
#include <cmath>

namespace engine {
namespace {

constexpr std::int64_t mostHeads = 65536;
constexpr std::int64_t widest = 1 << 20;      ///< of hidden states
constexpr std::int64_t widestInner = 1 << 23; ///< of feed-forward parts
constexpr std::int64_t longest = 1 << 30;     ///< context

template<typename Value> int largest(const std::vector<LayerConfig> &layers, Value value)
{
    int most = 0;
    for (const LayerConfig &layer : layers)
        most = std::max(most, layer.*value);
    return most;
}

/// Every layer has tensors of its own, so a file with fewer tensors than layers lies about one of them.
int readLayers(const ConfigReader &reader, const Checkpoint &checkpoint)
{
    const std::int64_t layers = reader.count("block_count", widest);
    const auto tensors = static_cast<std::int64_t>(checkpoint.tensors().size());
    if (layers > tensors)
        reader.refuse("block_count", std::to_string(layers) + " layers",
                      "at most " + std::to_string(tensors) + ", the number of tensors in the file");
    return static_cast<int>(layers);
}

std::vector<LayerConfig> readLayerConfigs(const ConfigReader &reader, int layers)
{
    const std::vector<int> heads = reader.countPerLayer("attention.head_count", layers, mostHeads);
    const std::vector<int> kvHeads = reader.has("attention.head_count_kv")
        ? reader.countPerLayer("attention.head_count_kv", layers, mostHeads)
        : heads;
    const std::vector<int> widths = reader.countPerLayer("feed_forward_length", layers, widestInner);
    std::vector<LayerConfig> configs(static_cast<std::size_t>(layers));
    for (std::size_t i = 0; i < configs.size(); ++i) {
        if (heads[i] % kvHeads[i] != 0)
            reader.refuse("attention.head_count_kv", std::to_string(kvHeads[i]),
                          "a number that divides the " + std::to_string(heads[i]) + " heads");
        configs[i].heads = heads[i];
        configs[i].kvHeads = kvHeads[i];
        configs[i].intermediate = widths[i];
    }
    return configs;
}

int readHeadDim(const ConfigReader &reader, const ModelConfig &config)
{
    if (!reader.has("attention.key_length")) {
        const int heads = config.layer.front().heads;
        if (config.hidden % heads != 0)
            reader.refuse("embedding_length", std::to_string(config.hidden),
                          "a multiple of the " + std::to_string(heads) + " heads");
        return config.hidden / heads;
    }
    const auto keyLength = static_cast<int>(reader.count("attention.key_length", 1024));
    const auto valueLength = static_cast<int>(reader.count("attention.value_length", 1024, keyLength));
    if (valueLength != keyLength)
        reader.refuse("attention.value_length", std::to_string(valueLength),
                      std::to_string(keyLength) + ", the length of the keys");
    return keyLength;
}

void readYarn(const ConfigReader &reader, const ModelConfig &config, RopeConfig &rope)
{
    if (rope.base <= 1.0)
        reader.refuse("rope.freq_base", std::to_string(rope.base), "a number above 1 for yarn scaling");
    rope.originalContext =
        static_cast<int>(reader.count("rope.scaling.original_context_length", longest, config.contextLength));
    rope.attentionFactor = reader.positive("rope.scaling.attn_factor", 1.0);
    rope.attentionFactor = reader.positive("rope.scaling.yarn_attn_factor", rope.attentionFactor);
    rope.betaFast = reader.positive("rope.scaling.yarn_beta_fast", rope.betaFast);
    rope.betaSlow = reader.positive("rope.scaling.yarn_beta_slow", rope.betaSlow);
    rope.extrapolation = reader.number("rope.scaling.yarn_ext_factor", 1.0);
    if (rope.extrapolation < 0.0) // the format's way of saying "by the scaling type"
        rope.extrapolation = 1.0;
}

RopeConfig readRope(const ConfigReader &reader, const ModelConfig &config)
{
    RopeConfig rope;
    rope.base = reader.positive("rope.freq_base", 10000.0);
    rope.dimensions = static_cast<int>(reader.count("rope.dimension_count", config.headDim, config.headDim));
    if (rope.dimensions % 2 != 0)
        reader.refuse("rope.dimension_count", std::to_string(rope.dimensions), "an even number");
    const std::string type = reader.text("rope.scaling.type", reader.has("rope.scale_linear") ? "linear" : "none");
    if (type == "none")
        return rope;
    rope.factor = reader.positive("rope.scaling.factor", reader.positive("rope.scale_linear", 1.0));
    if (type == "linear") {
        rope.scaling = RopeScaling::Linear;
    } else if (type == "yarn") {
        rope.scaling = RopeScaling::Yarn;
        readYarn(reader, config, rope);
    } else {
        reader.refuse("rope.scaling.type", utf8::quoted(type), "none, linear or yarn; other types are not supported");
    }
    return rope;
}

MoeConfig readExperts(const ConfigReader &reader)
{
    MoeConfig moe;
    moe.experts = static_cast<int>(reader.countOrZero("expert_count", mostHeads));
    moe.expertsUsed = static_cast<int>(reader.countOrZero("expert_used_count", mostHeads));
    if (moe.expertsUsed > moe.experts)
        reader.refuse("expert_used_count", std::to_string(moe.expertsUsed),
                      "at most " + std::to_string(moe.experts) + ", the number of experts");
    if (moe.experts > 0 && moe.expertsUsed == 0)
        reader.refuse("expert_used_count", "0", "at least 1 of the " + std::to_string(moe.experts) + " experts");
    return moe;
}

int readVocab(const Checkpoint &checkpoint)
{
    const TensorInfo *table = checkpoint.find("token_embd.weight");
    if (!table)
        throw Error(ErrorCode::Refused, "tensor token_embd.weight is missing");
    if (table->shape.size() != 2 || table->shape[0] < 1 || table->shape[0] > (1 << 24))
        throw Error(ErrorCode::Refused,
                    "tensor token_embd.weight has shape " + describeShape(table->shape)
                        + "; wanted [vocabulary, embedding] with at most 16777216 rows");
    return static_cast<int>(table->shape[0]);
}

std::int64_t countParameters(const Checkpoint &checkpoint)
{
    std::int64_t total = 0;
    for (const TensorInfo &tensor : checkpoint.tensors()) {
        std::int64_t elements = 1;
        for (const std::int64_t size : tensor.shape)
            elements *= size;
        total += elements;
    }
    return total;
}

} // namespace

int ModelConfig::maxHeads() const
{
    return largest(layer, &LayerConfig::heads);
}

int ModelConfig::maxKvHeads() const
{
    return largest(layer, &LayerConfig::kvHeads);
}

int ModelConfig::maxIntermediate() const
{
    return largest(layer, &LayerConfig::intermediate);
}

KvShape ModelConfig::kvShape(int blockTokens, kernels::DType dtype) const
{
    KvShape shape;
    shape.layers = layers;
    shape.kvHeads = maxKvHeads();
    shape.headDim = headDim;
    shape.blockTokens = blockTokens;
    shape.dtype = dtype;
    return shape;
}

const std::string &architectureOf(const Checkpoint &checkpoint)
{
    const std::string *name = checkpoint.metadata().text("general.architecture");
    if (!name)
        throw Error(ErrorCode::Refused, "key general.architecture is missing; a model names its family there");
    return *name;
}

ModelConfig readCommonConfig(const Checkpoint &checkpoint)
{
    ModelConfig config;
    config.architecture = architectureOf(checkpoint);
    const ConfigReader reader(checkpoint.metadata(), config.architecture);
    if (const std::string *name = checkpoint.metadata().text("general.name"))
        config.name = *name;
    config.layers = readLayers(reader, checkpoint);
    config.hidden = static_cast<int>(reader.count("embedding_length", widest));
    config.contextLength = static_cast<int>(reader.count("context_length", longest));
    config.layer = readLayerConfigs(reader, config.layers);
    config.headDim = readHeadDim(reader, config);
    config.normEpsilon = static_cast<float>(reader.positive("attention.layer_norm_rms_epsilon"));
    config.attentionScale =
        static_cast<float>(reader.positive("attention.scale", 1.0 / std::sqrt(static_cast<double>(config.headDim))));
    config.rope = readRope(reader, config);
    config.moe = readExperts(reader);
    config.vocab = readVocab(checkpoint);
    config.parameters = countParameters(checkpoint);
    return config;
}

} // namespace engine
