// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/model_registry.h"

namespace engine {
namespace {

/// Phi 3, 3.5 and 4: fused matrices, factors for long sequences. Where the file states a window, it holds for all
/// layers. Source: Abdin et al. 2024, arXiv:2404.14219; transformers, models/phi3.
ModelConfig readPhi3Config(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint);
    refuseExperts(config);
    refuseLogitScale(checkpoint, config);
    config.fusedGateUp = true;
    return config;
}

} // namespace

ModelFamily phi3Family()
{
    HfFamily hf;
    hf.modelTypes = {"phi3"};
    hf.architectures = {"Phi3ForCausalLM"};
    hf.defaults =
        R"({"rms_norm_eps": 1e-5, "max_position_embeddings": 4096, "original_max_position_embeddings": 4096})";
    return {"phi3", readPhi3Config, decoderTensors, loadDecoder, hf};
}

} // namespace engine
