// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/hf_translate.h"
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

/// Flags that say 1 where a layer rotates, or the interval of those that do not.
void translateSmollm3(const HfConfig &config, HfKeys &keys)
{
    const std::int64_t layers = config.count("num_hidden_layers", 1 << 16);
    const std::int64_t interval = config.count("no_rope_layer_interval", 1 << 16, plainInterval);
    std::vector<bool> rotates;
    if (config.has("no_rope_layers"))
        rotates = config.booleans("no_rope_layers").value();
    else
        for (std::int64_t i = 0; i < layers; ++i)
            rotates.push_back((i + 1) % interval != 0);
    if (rotates.size() != static_cast<std::size_t>(layers))
        config.refuseValue("no_rope_layers", std::to_string(layers) + " flags, one per layer");
    keys.set("rope.layers", rotates);
    if (config.boolean("use_sliding_window") == true && config.has("sliding_window") && !config.has("layer_types")) {
        rotates.flip(); // the window is on the layers that do not rotate
        setWindowedLayers(config, keys, rotates);
    }
}

} // namespace

ModelFamily smollm3Family()
{
    HfFamily hf;
    hf.modelTypes = {"smollm3"};
    hf.architectures = {"SmolLM3ForCausalLM"};
    hf.defaults = R"({"rope_theta": 2000000.0, "use_sliding_window": false, "max_position_embeddings": 32768,
                      "num_key_value_heads": 4})";
    hf.translate = translateSmollm3;
    return {"smollm3", readSmollm3Config, decoderTensors, loadDecoder, hf};
}

} // namespace engine
