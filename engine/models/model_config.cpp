// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/model_config.h"

#include "engine/models/config_limits.h"
#include "engine/models/config_reader.h"
#include "engine/models/tensor_names.h"
#include "engine/text/utf8.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace engine {
namespace {

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
        if (heads[i] != heads[0] || kvHeads[i] != kvHeads[0])
            reader.refuse("attention.head_count", "different from layer to layer", "the same number in every layer");
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

/// Which layers have the window: by an array or an interval in the file, else by the family's interval.
std::vector<bool> readWindowed(const ConfigReader &reader, int layers, int defaultPattern)
{
    constexpr const char *key = "attention.sliding_window_pattern";
    if (reader.isArray(key))
        return reader.flagPerLayer(key, layers).value();
    const auto pattern = reader.has(key) ? reader.countOrZero(key, widest) : defaultPattern;
    std::vector<bool> windowed(static_cast<std::size_t>(layers), true);
    for (std::size_t i = 0; pattern > 0 && i < windowed.size(); ++i)
        windowed[i] = static_cast<std::int64_t>(i + 1) % pattern != 0;
    return windowed;
}

void readWindows(const ConfigReader &reader, ModelConfig &config, const FamilyDefaults &defaults)
{
    constexpr const char *key = "attention.sliding_window";
    const int window = reader.has(key) ? static_cast<int>(reader.countOrZero(key, longestContext)) : defaults.window;
    if (window == 0)
        return;
    const std::vector<bool> windowed = readWindowed(reader, config.layers, defaults.windowPattern);
    for (std::size_t i = 0; i < windowed.size(); ++i)
        config.layer[i].window = windowed[i] ? window : 0;
}

/// Rotary embedding of windowed layers where it differs, and the layers that have none.
void readRopeOfLayers(const ConfigReader &reader, ModelConfig &config)
{
    config.localRope = config.rope;
    if (const auto rotates = reader.flagPerLayer("rope.layers", config.layers)) {
        for (std::size_t i = 0; i < rotates->size(); ++i)
            config.layer[i].rotates = (*rotates)[i];
    }
    if (!reader.has("rope.freq_base_swa") && !reader.has("rope.scaling_swa.type"))
        return;
    useLocalRope(config, reader, reader.positive("rope.freq_base_swa", config.rope.base));
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
        throw Error(ErrorCode::Refused, tensorPlace(checkpoint, "token_embd.weight") + " is missing");
    if (table->shape.size() != 2 || table->shape[0] < 1 || table->shape[0] > (1 << 24))
        throw Error(ErrorCode::Refused,
                    tensorPlace(checkpoint, "token_embd.weight") + " has shape " + describeShape(table->shape)
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

/// Keys of other networks that change results and that no block computes.
void refuseUnknownBehaviour(const ConfigReader &reader)
{
    for (const char *key :
         {"attention.max_alibi_bias", "attention.temperature_scale", "attention.temperature_length"}) {
        if (const double value = reader.number(key, 0.0); value != 0.0)
            reader.refuse(key, std::to_string(value), "0: this is not supported");
    }
    for (const std::int64_t section : reader.numbers("rope.dimension_sections")) {
        if (section != 0)
            reader.refuse("rope.dimension_sections", "set",
                          "absent: positions in more than one dimension are not supported");
    }
    if (!reader.flag("attention.causal", true))
        reader.refuse("attention.causal", "false", "true: only causal attention is supported");
}

/// A factor, 0 being the format's way of saying that there is none.
float readScale(const ConfigReader &reader, const char *key, double fallback)
{
    const double value = reader.zeroOrPositive(key, fallback);
    return static_cast<float>(value == 0.0 ? fallback : value);
}

void readScales(const ConfigReader &reader, ModelConfig &config)
{
    config.attentionScale = readScale(reader, "attention.scale", 1.0 / std::sqrt(static_cast<double>(config.headDim)));
    config.embeddingScale = readScale(reader, "embedding_scale", 1.0);
    config.residualScale = readScale(reader, "residual_scale", 1.0);
    config.attentionSoftCap = static_cast<float>(reader.zeroOrPositive("attn_logit_softcapping", 0.0));
    config.logitSoftCap = static_cast<float>(reader.zeroOrPositive("final_logit_softcapping", 0.0));
    config.queryKeyValueLimit = static_cast<float>(reader.zeroOrPositive("attention.clamp_kqv", 0.0));
    if (config.queryKeyValueLimit > 0.0F && config.latent.used())
        reader.refuse("attention.clamp_kqv", std::to_string(config.queryKeyValueLimit),
                      "0: this is not supported with latent attention");
}

/// The function of the feed-forward parts, by the names of transformers, activations.py.
kernels::Activation readActivation(const ConfigReader &reader, kernels::Activation fallback)
{
    constexpr const char *key = "hidden_activation";
    if (!reader.has(key))
        return fallback;
    const std::string name = reader.text(key, "");
    for (const NamedActivation &each : namedActivations()) {
        if (each.name == name)
            return each.activation;
    }
    reader.refuse(key, utf8::quoted(name), "silu, gelu, gelu_new, gelu_pytorch_tanh or relu");
}

bool anyLayerHas(const Checkpoint &checkpoint, int layers, const char *part, const char *suffix)
{
    for (int i = 0; i < layers; ++i) {
        if (checkpoint.find(layerTensor(i, part, suffix)))
            return true;
    }
    return false;
}

/// What the file's tensors say. A bias that one layer has is wanted of all.
void readForms(const Checkpoint &checkpoint, ModelConfig &config)
{
    const auto bias = [&](std::initializer_list<const char *> parts) {
        return std::any_of(parts.begin(), parts.end(),
                           [&](const char *part) { return anyLayerHas(checkpoint, config.layers, part, "bias"); });
    };
    config.tiedHead = !checkpoint.find("output.weight");
    config.fusedQkv = anyLayerHas(checkpoint, config.layers, "attn_qkv", "weight");
    config.attentionBias = bias({"attn_q", "attn_k", "attn_v", "attn_qkv", "attn_q_a", "attn_kv_a_mqa"});
    config.outputBias = bias({"attn_output"});
    config.feedForwardBias = bias({"ffn_gate", "ffn_up", "ffn_down"});
    config.normBias = bias({"attn_norm", "ffn_norm"});
    config.queryKeyNormBias = bias({"attn_q_norm", "attn_k_norm"});
}

} // namespace

std::span<const NamedActivation> namedActivations()
{
    using kernels::Activation;
    static constexpr std::array<NamedActivation, 6> names = {{{"silu", Activation::Silu},
                                                              {"swish", Activation::Silu},
                                                              {"gelu", Activation::GeluErf},
                                                              {"gelu_new", Activation::GeluTanh},
                                                              {"gelu_pytorch_tanh", Activation::GeluTanh},
                                                              {"relu", Activation::Relu}}};
    return names;
}

void useLocalRope(ModelConfig &config, const ConfigReader &reader, double base)
{
    config.localRope = RopeConfig{};
    config.localRope.base = base;
    config.localRope.dimensions = config.rope.dimensions;
    config.localRope.interleaved = config.rope.interleaved;
    readRopeScaling(reader, {"rope.scaling_swa.", config.contextLength, false}, config.localRope);
    if (ropeVariants(config.localRope).switchLength != 0)
        reader.refuse("rope.scaling_swa.type", "one that depends on the length of the sequence",
                      "none, linear, yarn or llama3 for layers with a window");
    for (LayerConfig &layer : config.layer)
        layer.localRope = layer.window > 0;
}

void rotateWindowedOnly(const Checkpoint &checkpoint, ModelConfig &config)
{
    const ConfigReader reader(checkpoint.metadata(), config.architecture);
    if (!config.windowed() || reader.has("rope.layers"))
        return;
    for (LayerConfig &layer : config.layer)
        layer.rotates = layer.window > 0;
}

void refuseExperts(const ModelConfig &config)
{
    if (config.moe.experts > 0)
        throw Error(ErrorCode::Refused,
                    "key " + config.architecture + ".expert_count is " + std::to_string(config.moe.experts)
                        + "; wanted 0: mixtures of experts are not supported for this architecture");
}

void refuseLogitScale(const Checkpoint &checkpoint, const ModelConfig &config)
{
    const ConfigReader reader(checkpoint.metadata(), config.architecture);
    if (const double scale = reader.number("logit_scale", 1.0); scale != 1.0)
        reader.refuse("logit_scale", std::to_string(scale), "1: other ones are not supported for this architecture");
}

bool ModelConfig::hasLocalRope() const
{
    return std::any_of(layer.begin(), layer.end(), [](const LayerConfig &each) { return each.localRope; });
}

int ModelConfig::maxWindow() const
{
    return largest(layer, &LayerConfig::window);
}

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

int ModelConfig::keptWindow(int maxModelLen) const
{
    int window = 0;
    for (const LayerConfig &each : layer)
        if (each.window < maxModelLen)
            window = std::max(window, each.window);
    return window;
}

KvShape ModelConfig::kvShape(int blockTokens, const KvTypes &types, int window) const
{
    KvShape shape;
    shape.layers = layers;
    shape.kvHeads = latent.used() ? 1 : maxKvHeads();
    shape.headDim = latent.used() ? latent.keyDim() : headDim;
    shape.keysOnly = latent.used();
    shape.blockTokens = blockTokens;
    shape.types = types;
    for (const LayerConfig &each : layer)
        if (window > 0)
            shape.windowed.push_back(each.window > 0 && each.window <= window);
    return shape;
}

const std::string &architectureOf(const Checkpoint &checkpoint)
{
    const std::string *name = checkpoint.metadata().text("general.architecture");
    if (!name)
        throw Error(ErrorCode::Refused, "key general.architecture is missing; a model names its family there");
    return *name;
}

ModelConfig readCommonConfig(const Checkpoint &checkpoint, const FamilyDefaults &defaults)
{
    ModelConfig config;
    config.architecture = architectureOf(checkpoint);
    const ConfigReader reader(checkpoint.metadata(), config.architecture);
    if (const std::string *name = checkpoint.metadata().text("general.name"))
        config.name = *name;
    config.layers = readLayers(reader, checkpoint);
    config.hidden = static_cast<int>(reader.count("embedding_length", widest));
    config.contextLength = static_cast<int>(reader.count("context_length", longestContext));
    config.layer = readLayerConfigs(reader, config.layers);
    if (defaults.latent)
        config.latent = readLatent(reader);
    config.headDim = defaults.latent ? config.latent.queryDim() : readHeadDim(reader, config);
    config.norm = defaults.norm;
    config.normEpsilon = static_cast<float>(reader.positive(
        defaults.norm == NormKind::Rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon"));
    config.normWeightOffset = static_cast<float>(reader.number("norm_weight_offset", 0.0));
    config.activation = readActivation(reader, defaults.activation);
    refuseUnknownBehaviour(reader);
    readScales(reader, config);
    const bool factorTensors =
        checkpoint.find("rope_factors_short.weight") && checkpoint.find("rope_factors_long.weight");
    config.rope = readRope(reader, config.headDim, {"rope.scaling.", config.contextLength, factorTensors},
                           defaults.interleavedRope);
    readWindows(reader, config, defaults);
    readRopeOfLayers(reader, config);
    config.moe = readExperts(reader);
    config.vocab = readVocab(checkpoint);
    config.parameters = countParameters(checkpoint);
    readForms(checkpoint, config);
    return config;
}

} // namespace engine
