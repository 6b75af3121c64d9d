// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/model_registry.h"

namespace engine {
namespace {

/// What the shared keys may say but this architecture does not have.
void checkLlama(const ModelConfig &config, const ConfigReader &reader)
{
    if (config.moe.experts > 0)
        reader.refuse("expert_count", std::to_string(config.moe.experts), "0: mixtures of experts are not supported");
    for (const char *key : {"embedding_scale", "residual_scale", "logit_scale"}) {
        if (reader.number(key, 1.0) != 1.0)
            reader.refuse(key, std::to_string(reader.number(key, 1.0)),
                          "1: other multipliers are not supported for this architecture");
    }
}

/// Llama and what shares its shape: SmolLM2, Mistral, TinyLlama and others.
/// Source: Touvron et al. 2023, arXiv:2302.13971; windows: Jiang et al. 2023, arXiv:2310.06825.
ModelConfig readLlamaConfig(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint, {.interleavedRope = true});
    checkLlama(config, ConfigReader(checkpoint.metadata(), config.architecture));
    return config;
}

} // namespace

ModelFamily llamaFamily()
{
    return {"llama", readLlamaConfig, decoderTensors, loadDecoder};
}

} // namespace engine
