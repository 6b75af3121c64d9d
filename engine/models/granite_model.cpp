// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/model_registry.h"

#include <cmath>

namespace engine {
namespace {

/// A llama with multipliers; files give the divisor of the logits. Source: IBM Research 2024, Granite 3.0 language
/// models; transformers, models/granite.
ModelConfig readGraniteConfig(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint, {.interleavedRope = true});
    refuseExperts(config);
    const ConfigReader reader(checkpoint.metadata(), config.architecture);
    config.logitScale = static_cast<float>(1.0 / reader.positive("logit_scale", 1.0));
    if (!reader.flag("rope.scaling.finetuned", true)) { // this architecture's way of saying "no rotation"
        for (LayerConfig &layer : config.layer)
            layer.rotates = false;
    }
    return config;
}

/// The same, with values for files that lack them.
/// Source: Hu et al. 2024, arXiv:2404.06395.
ModelConfig readMinicpmConfig(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint, {.interleavedRope = true});
    refuseExperts(config);
    const ConfigReader reader(checkpoint.metadata(), config.architecture);
    config.embeddingScale = static_cast<float>(reader.positive("embedding_scale", 12.0));
    config.residualScale = static_cast<float>(reader.positive("residual_scale", 1.4 / std::sqrt(config.layers)));
    config.logitScale = static_cast<float>(1.0 / reader.positive("logit_scale", config.hidden / 256.0));
    return config;
}

} // namespace

ModelFamily graniteFamily()
{
    HfFamily hf;
    hf.modelTypes = {"granite"};
    hf.architectures = {"GraniteForCausalLM"};
    hf.defaults = R"({"attention_multiplier": 1.0, "max_position_embeddings": 2048})";
    return {"granite", readGraniteConfig, decoderTensors, loadDecoder, hf};
}

ModelFamily minicpmFamily()
{
    return {"minicpm", readMinicpmConfig, decoderTensors, loadDecoder};
}

} // namespace engine
