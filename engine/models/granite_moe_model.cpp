// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/model_registry.h"

#include <array>

namespace engine {
namespace {

/// A llama with multipliers and experts; files give the divisor of the logits.
/// Source: IBM Research 2024, Granite 3.0 language models; transformers, models/granitemoe.
ModelConfig readGraniteMoeConfig(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint, {.interleavedRope = true});
    const ConfigReader reader(checkpoint.metadata(), config.architecture);
    config.logitScale = static_cast<float>(1.0 / reader.positive("logit_scale", 1.0));
    readMoe(checkpoint, config, {.scores = kernels::RouterShape::Scores::SelectedSoftmax});
    return config;
}

void translateGraniteMoe(const HfConfig &config, HfKeys &keys)
{
    if (config.has("shared_intermediate_size"))
        keys.set("expert_shared_feed_forward_length", config.count("shared_intermediate_size", 1 << 23, 0, 0));
}

} // namespace

ModelFamily graniteMoeFamily()
{
    static constexpr std::array names = {
        HfName{"model.layers.{}.block_sparse_moe.router.layer", "blk.{}.ffn_gate_inp"},
        HfName{"model.layers.{}.block_sparse_moe.input_linear", "blk.{}.ffn_gate", HfForm::ExpertsGateUp},
        HfName{"model.layers.{}.block_sparse_moe.output_linear", "blk.{}.ffn_down", HfForm::Experts},
    };
    HfFamily hf;
    hf.modelTypes = {"granitemoe"};
    hf.architectures = {"GraniteMoeForCausalLM"};
    hf.defaults = R"({"attention_multiplier": 1.0, "max_position_embeddings": 2048, "num_local_experts": 8,
                      "num_experts_per_tok": 2})";
    hf.names = names;
    hf.translate = translateGraniteMoe;
    return {"granitemoe", readGraniteMoeConfig, decoderTensors, loadDecoder, hf};
}

} // namespace engine
