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
    if (!config.windowed())
        reader.refuse("attention.sliding_window", "absent or 0", "the number of tokens that most layers see");
    rotateWindowedOnly(checkpoint, config);
    return config;
}

/// The library turns neighbours into pairs.
void translateCohere(const HfConfig &, HfKeys &keys)
{
    keys.set("rope.interleaved", true);
}

} // namespace

ModelFamily commandRFamily()
{
    HfFamily hf;
    hf.modelTypes = {"cohere"};
    hf.architectures = {"CohereForCausalLM"};
    hf.defaults = R"({"layer_norm_eps": 1e-5, "logit_scale": 0.0625})";
    hf.translate = translateCohere;
    return {"command-r", readCommandRConfig, decoderTensors, loadDecoder, hf};
}

ModelFamily cohere2Family()
{
    HfFamily hf;
    hf.modelTypes = {"cohere2"};
    hf.architectures = {"Cohere2ForCausalLM"};
    hf.defaults =
        R"({"layer_norm_eps": 1e-5, "logit_scale": 0.0625, "sliding_window": 4096, "sliding_window_pattern": 4})";
    hf.translate = translateCohere;
    return {"cohere2", readCohere2Config, decoderTensors, loadDecoder, hf};
}

} // namespace engine
