// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/model_registry.h"

namespace engine {
namespace {

constexpr int plainInterval = 4; ///< every fourth layer does not rotate where the file does not list them

/// A llama some of whose layers have no rotary embedding. Source: transformers, models/smollm3.
ModelConfig readSmollm3Config(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint, {.interleavedRope = true});
    refuseExperts(config);
    refuseLogitScale(checkpoint, config);
    const ConfigReader reader(checkpoint.metadata(), config.architecture);
    if (!reader.has("rope.layers")) {
        for (std::size_t i = 0; i < config.layer.size(); ++i)
            config.layer[i].rotates = (i + 1) % plainInterval != 0;
    }
    return config;
}

} // namespace

ModelFamily smollm3Family()
{
    return {"smollm3", readSmollm3Config, decoderTensors, loadDecoder};
}

} // namespace engine
