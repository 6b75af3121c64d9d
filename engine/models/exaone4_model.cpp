// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/model_registry.h"

#include <array>

namespace engine {
namespace {

/// Norms behind the branches and over each head; of windowed models only layers with a window rotate.
/// Source: LG AI Research 2025, arXiv:2507.11407; transformers, models/exaone4.
ModelConfig readExaone4Config(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint, {.windowPattern = 4});
    refuseExperts(config);
    refuseLogitScale(checkpoint, config);
    config.placement = NormPlacement::After;
    config.queryKeyNorm = QueryKeyNorm::Head;
    rotateWindowedOnly(checkpoint, config);
    return config;
}

/// In a model with windows layers without one do not rotate, also where no layer has it.
void translateExaone4(const HfConfig &config, HfKeys &keys)
{
    if (config.has("sliding_window") && !keys.has("attention.sliding_window"))
        keys.set("rope.layers",
                 std::vector<bool>(static_cast<std::size_t>(config.count("num_hidden_layers", 1 << 16))));
}

} // namespace

ModelFamily exaone4Family()
{
    static constexpr std::array names = {
        HfName{"model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm"},
        HfName{"model.layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm"},
    };
    HfFamily hf;
    hf.modelTypes = {"exaone4"};
    hf.architectures = {"Exaone4ForCausalLM"};
    hf.defaults =
        R"({"rms_norm_eps": 1e-5, "sliding_window": 4096, "sliding_window_pattern": 4, "max_position_embeddings": 2048})";
    hf.names = names;
    hf.translate = translateExaone4;
    return {"exaone4", readExaone4Config, decoderTensors, loadDecoder, hf};
}

} // namespace engine
