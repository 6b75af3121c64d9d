// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/model_registry.h"

#include <array>

namespace engine {
namespace {

/// LayerNorm and a plain feed-forward part. Source: Lozhkov et al. 2024, arXiv:2402.19173.
ModelConfig readStarcoder2Config(const Checkpoint &checkpoint)
{
    ModelConfig config =
        readCommonConfig(checkpoint, {.norm = NormKind::Layer, .activation = kernels::Activation::GeluTanh});
    refuseExperts(config);
    refuseLogitScale(checkpoint, config);
    config.gated = false;
    return config;
}

} // namespace

ModelFamily starcoder2Family()
{
    static constexpr std::array names = {
        HfName{"model.layers.{}.mlp.c_fc", "blk.{}.ffn_up"},
        HfName{"model.layers.{}.mlp.c_proj", "blk.{}.ffn_down"},
    };
    HfFamily hf;
    hf.modelTypes = {"starcoder2"};
    hf.architectures = {"Starcoder2ForCausalLM"};
    hf.defaults = R"({"norm_epsilon": 1e-5, "max_position_embeddings": 4096, "num_key_value_heads": 2})";
    hf.names = names;
    return {"starcoder2", readStarcoder2Config, decoderTensors, loadDecoder, hf};
}

} // namespace engine
