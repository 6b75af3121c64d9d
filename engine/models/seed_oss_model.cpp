// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/model_registry.h"

#include <array>

namespace engine {
namespace {

/// A llama with biases and the other pairing. Source: transformers, models/seed_oss.
ModelConfig readSeedOssConfig(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint);
    refuseExperts(config);
    refuseLogitScale(checkpoint, config);
    config.feedForwardNormName = "post_attention_norm";
    return config;
}

} // namespace

ModelFamily seedOssFamily()
{
    static constexpr std::array names = {
        HfName{"model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm"},
    };
    HfFamily hf;
    hf.modelTypes = {"seed_oss"};
    hf.architectures = {"SeedOssForCausalLM"};
    hf.defaults = R"({"head_dim": 128, "max_position_embeddings": 524288, "num_key_value_heads": 8})";
    hf.names = names;
    return {"seed_oss", readSeedOssConfig, decoderTensors, loadDecoder, hf};
}

} // namespace engine
