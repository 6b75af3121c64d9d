// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/hf_translate.h"
#include "engine/models/model_registry.h"

#include <array>

namespace engine {
namespace {

/// OLMo 2: norms behind the branches, and over all queries and all keys of a token. OLMo 3 adds windows, whose layers
/// rotate without scaling. Source: OLMo team 2025, arXiv:2501.00656; transformers, models/olmo2 and models/olmo3.
ModelConfig readOlmo2Config(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint, {.windowPattern = 4});
    refuseExperts(config);
    refuseLogitScale(checkpoint, config);
    config.placement = NormPlacement::After;
    config.queryKeyNorm = QueryKeyNorm::All;
    const ConfigReader reader(checkpoint.metadata(), config.architecture);
    if (config.windowed() && !config.hasLocalRope())
        useLocalRope(config, reader, config.rope.base);
    return config;
}

/// What the class of the third version fills in and that of the second does not.
void translateOlmo2(const HfConfig &config, HfKeys &keys)
{
    if (config.text("model_type") != "olmo3")
        return;
    if (!config.has("rope_theta") && !config.has("rope_parameters"))
        keys.set("rope.freq_base", 500000.0);
    if (config.has("sliding_window"))
        return;
    const HfConfig filled = config.withDefaults(R"({"sliding_window": 4096})");
    translateWindow(filled, keys);
}

} // namespace

ModelFamily olmo2Family()
{
    static constexpr std::array names = {
        HfName{"model.layers.{}.post_attention_layernorm", "blk.{}.post_attention_norm"},
        HfName{"model.layers.{}.post_feedforward_layernorm", "blk.{}.post_ffw_norm"},
    };
    HfFamily hf;
    hf.modelTypes = {"olmo2", "olmo3"};
    hf.architectures = {"Olmo2ForCausalLM", "Olmo3ForCausalLM"};
    hf.defaults = R"({"rms_norm_eps": 1e-5, "sliding_window_pattern": 4, "max_position_embeddings": 2048})";
    hf.translate = translateOlmo2;
    hf.names = names;
    return {"olmo2", readOlmo2Config, decoderTensors, loadDecoder, hf};
}

} // namespace engine
