// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/model_registry.h"

#include <array>

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
    // Experts of mixtral are named by what they compute: w2(act(w1 x) * w3 x).
    static constexpr std::array names = {
        HfName{"model.layers.{}.block_sparse_moe.gate", "blk.{}.ffn_gate_inp"},
        HfName{"model.layers.{}.block_sparse_moe.experts.{}.w1", "blk.{}.ffn_gate.{}"},
        HfName{"model.layers.{}.block_sparse_moe.experts.{}.w2", "blk.{}.ffn_down.{}"},
        HfName{"model.layers.{}.block_sparse_moe.experts.{}.w3", "blk.{}.ffn_up.{}"},
    };
    HfFamily hf;
    hf.modelTypes = {"llama", "mistral", "mixtral"};
    hf.architectures = {"LlamaForCausalLM", "MistralForCausalLM", "MixtralForCausalLM"};
    hf.names = names;
    return {"llama", readLlamaConfig, decoderTensors, loadDecoder, hf};
}

} // namespace engine
