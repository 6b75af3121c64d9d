// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/model_registry.h"

namespace engine {
namespace {

/// GLM 4 (the first one, whose files say chatglm): a llama with gate and up in one matrix that rotates a part of each
/// head. Source: GLM team 2024, arXiv:2406.12793; transformers, models/glm.
ModelConfig readChatglmConfig(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint, {.interleavedRope = true});
    refuseExperts(config);
    refuseLogitScale(checkpoint, config);
    config.fusedGateUp = true;
    return config;
}

/// GLM 4 of 2025, with norms before and behind the branches. Source: transformers, models/glm4.
ModelConfig readGlm4Config(const Checkpoint &checkpoint)
{
    ModelConfig config = readChatglmConfig(checkpoint);
    config.placement = NormPlacement::Both;
    return config;
}

} // namespace

ModelFamily chatglmFamily()
{
    return {"chatglm", readChatglmConfig, decoderTensors, loadDecoder};
}

ModelFamily glm4Family()
{
    return {"glm4", readGlm4Config, decoderTensors, loadDecoder};
}

} // namespace engine
