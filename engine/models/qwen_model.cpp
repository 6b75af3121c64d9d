// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/model_registry.h"

namespace engine {
namespace {

/// Biases on queries, keys and values. Source: Yang et al. 2024, arXiv:2407.10671.
ModelConfig readQwen2Config(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint);
    refuseExperts(config);
    refuseLogitScale(checkpoint, config);
    config.attentionBias = true;
    return config;
}

/// Normed queries and keys. Source: Yang et al. 2025, arXiv:2505.09388.
ModelConfig readQwen3Config(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint);
    refuseExperts(config);
    refuseLogitScale(checkpoint, config);
    config.queryKeyNorm = QueryKeyNorm::Head;
    return config;
}

} // namespace

ModelFamily qwen2Family()
{
    return {"qwen2", readQwen2Config, decoderTensors, loadDecoder};
}

ModelFamily qwen3Family()
{
    return {"qwen3", readQwen3Config, decoderTensors, loadDecoder};
}

} // namespace engine
