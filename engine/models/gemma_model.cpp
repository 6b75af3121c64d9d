// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/model_registry.h"

#include <cmath>

namespace engine {
namespace {

ModelConfig readAnyGemma(const Checkpoint &checkpoint, const FamilyDefaults &defaults)
{
    ModelConfig config = readCommonConfig(checkpoint, defaults);
    refuseExperts(config);
    refuseLogitScale(checkpoint, config);
    const ConfigReader reader(checkpoint.metadata(), config.architecture);
    config.embeddingScale =
        static_cast<float>(reader.positive("embedding_scale", std::sqrt(static_cast<double>(config.hidden))));
    config.activation = kernels::Activation::GeluTanh;
    return config;
}

/// The largest models of two generations scale their queries by hidden / heads. Files do not say so.
void scaleByHidden(const ConfigReader &reader, int layersOfLargest, ModelConfig &config)
{
    if (config.layers != layersOfLargest || reader.has("attention.scale"))
        return;
    const int perHead = config.hidden / config.layer.front().heads;
    config.attentionScale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(perHead)));
}

/// Source: Gemma team 2024, arXiv:2403.08295.
ModelConfig readGemmaConfig(const Checkpoint &checkpoint)
{
    return readAnyGemma(checkpoint, {});
}

/// Windows in every other layer, capped scores and logits. Source: Gemma team 2024, arXiv:2408.00118.
ModelConfig readGemma2Config(const Checkpoint &checkpoint)
{
    ModelConfig config = readAnyGemma(checkpoint, {.windowPattern = 2, .window = 4096});
    const ConfigReader reader(checkpoint.metadata(), config.architecture);
    config.placement = NormPlacement::Both;
    config.attentionSoftCap = static_cast<float>(reader.zeroOrPositive("attn_logit_softcapping", 50.0));
    config.logitSoftCap = static_cast<float>(reader.zeroOrPositive("final_logit_softcapping", 30.0));
    scaleByHidden(reader, 46, config);
    return config;
}

/// Windows in five of six layers, which rotate by a base of their own. Source: Gemma team 2025, arXiv:2503.19786.
ModelConfig readGemma3Config(const Checkpoint &checkpoint)
{
    ModelConfig config = readAnyGemma(checkpoint, {.windowPattern = 6});
    const ConfigReader reader(checkpoint.metadata(), config.architecture);
    config.placement = NormPlacement::Both;
    config.queryKeyNorm = QueryKeyNorm::Head;
    if (!config.hasLocalRope())
        useLocalRope(config, reader, 10000.0);
    scaleByHidden(reader, 62, config);
    return config;
}

} // namespace

ModelFamily gemmaFamily()
{
    return {"gemma", readGemmaConfig, decoderTensors, loadDecoder};
}

ModelFamily gemma2Family()
{
    return {"gemma2", readGemma2Config, decoderTensors, loadDecoder};
}

ModelFamily gemma3Family()
{
    return {"gemma3", readGemma3Config, decoderTensors, loadDecoder};
}

} // namespace engine
