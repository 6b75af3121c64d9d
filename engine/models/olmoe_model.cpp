// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/model_registry.h"

#include <array>

namespace engine {
namespace {

/// All queries and all keys of a token are normed together; weights are those of the softmax over all experts.
/// Source: Muennighoff et al. 2024, arXiv:2409.02060.
ModelConfig readOlmoeConfig(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint);
    refuseLogitScale(checkpoint, config);
    config.queryKeyNorm = QueryKeyNorm::All;
    readMoe(checkpoint, config, {});
    return config;
}

void translateOlmoe(const HfConfig &config, HfKeys &keys)
{
    const auto limit = config.number("clip_qkv");
    if (limit && static_cast<float>(*limit) <= 0.0F)
        config.refuseValue("clip_qkv", "a number above 0, or null");
    if (limit)
        keys.set("attention.clamp_kqv", *limit);
}

} // namespace

ModelFamily olmoeFamily()
{
    HfFamily hf;
    hf.modelTypes = {"olmoe"};
    hf.architectures = {"OlmoeForCausalLM"};
    hf.defaults =
        R"({"rms_norm_eps": 1e-5, "max_position_embeddings": 4096, "num_experts": 64, "num_experts_per_tok": 8})";
    hf.translate = translateOlmoe;
    return {"olmoe", readOlmoeConfig, decoderTensors, loadDecoder, hf};
}

} // namespace engine
