// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/model_registry.h"

namespace engine {
namespace {

/// Command R: one LayerNorm for two branches side by side. Source: transformers, models/cohere.
ModelConfig readCommandRConfig(const Checkpoint &checkpoint)
{
    ModelConfig config =
        readCommonConfig(checkpoint, {.interleavedRope = true, .norm = NormKind::Layer, .windowPattern = 4});
    refuseExperts(config);
    const ConfigReader reader(checkpoint.metadata(), config.architecture);
    config.parallel = true;
    config.feedForwardNorm = false;
    config.logitScale = static_cast<float>(reader.positive("logit_scale", 1.0));
    if (checkpoint.find(layerTensor(0, "attn_q_norm")))
        config.queryKeyNorm = QueryKeyNorm::OwnHead;
    return config;
}

/// Command R7B and A: windows in three of four layers, and only those rotate. Source: transformers, models/cohere2.
ModelConfig readCohere2Config(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommandRConfig(checkpoint);
    const ConfigReader reader(checkpoint.metadata(), config.architecture);
    if (!config.windowed() && !reader.has("rope.layers"))
        reader.refuse("attention.sliding_window", "absent or 0", "the number of tokens that most layers see");
    rotateWindowedOnly(checkpoint, config);
    return config;
}

/// The library turns neighbours into pairs.
void translateCohere(const HfConfig &, HfKeys &keys)
{
    keys.set("rope.interleaved", true);
}

/// Layers without a window do not rotate, so none does where none has one.
void translateCohere2(const HfConfig &config, HfKeys &keys)
{
    translateCohere(config, keys);
    if (!keys.has("attention.sliding_window"))
        keys.set("rope.layers",
                 std::vector<bool>(static_cast<std::size_t>(config.count("num_hidden_layers", 1 << 16))));
}

} // namespace

ModelFamily commandRFamily()
{
    HfFamily hf;
    hf.modelTypes = {"cohere"};
    hf.architectures = {"CohereForCausalLM"};
    hf.defaults =
        R"({"layer_norm_eps": 1e-5, "rope_theta": 500000.0, "logit_scale": 0.0625, "max_position_embeddings": 8192})";
    hf.translate = translateCohere;
    return {"command-r", readCommandRConfig, decoderTensors, loadDecoder, hf};
}

ModelFamily cohere2Family()
{
    HfFamily hf;
    hf.modelTypes = {"cohere2"};
    hf.architectures = {"Cohere2ForCausalLM"};
    hf.defaults =
        R"({"layer_norm_eps": 1e-5, "logit_scale": 0.0625, "sliding_window": 4096, "sliding_window_pattern": 4,
                          "max_position_embeddings": 8192})";
    hf.translate = translateCohere2;
    return {"cohere2", readCohere2Config, decoderTensors, loadDecoder, hf};
}

} // namespace engine
