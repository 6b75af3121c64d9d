// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/model_registry.h"

#include <array>

namespace engine {
namespace {

/// LayerNorm and rotation of a part of each head; the largest one has both branches side by side behind one norm, and
/// norms of each head. Source: Bellagente et al. 2024, arXiv:2402.17834; transformers, models/stablelm.
ModelConfig readStablelmConfig(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint, {.norm = NormKind::Layer});
    refuseExperts(config);
    refuseLogitScale(checkpoint, config);
    config.feedForwardNorm = checkpoint.find(layerTensor(0, "ffn_norm")) != nullptr;
    const ConfigReader reader(checkpoint.metadata(), config.architecture);
    config.parallel = reader.flag("parallel", !config.feedForwardNorm);
    config.feedForwardNorm = !config.parallel;
    config.separateHeadNorms = checkpoint.find(layerTensor(0, "attn_q_norm.0")) != nullptr;
    const bool holdsNorms = config.separateHeadNorms || checkpoint.find(layerTensor(0, "attn_q_norm")) != nullptr;
    if (reader.flag("attention.qk_norm", holdsNorms))
        config.queryKeyNorm = QueryKeyNorm::OwnHead;
    return config;
}

/// A llama with LayerNorm. Source: Chen et al. 2024, arXiv:2401.12246.
ModelConfig readOrionConfig(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint, {.norm = NormKind::Layer});
    refuseExperts(config);
    refuseLogitScale(checkpoint, config);
    return config;
}

void translateStablelm(const HfConfig &config, HfKeys &keys)
{
    keys.set("attention.qk_norm", config.boolean("qk_layernorm").value_or(false));
    keys.set("parallel", config.boolean("use_parallel_residual").value_or(false));
}

} // namespace

ModelFamily stablelmFamily()
{
    static constexpr std::array names = {
        HfName{"model.layers.{}.self_attn.q_layernorm.norms.{}", "blk.{}.attn_q_norm.{}"},
        HfName{"model.layers.{}.self_attn.k_layernorm.norms.{}", "blk.{}.attn_k_norm.{}"},
    };
    HfFamily hf;
    hf.modelTypes = {"stablelm"};
    hf.architectures = {"StableLmForCausalLM"};
    hf.defaults = R"({"layer_norm_eps": 1e-5, "partial_rotary_factor": 0.25, "max_position_embeddings": 4096})";
    hf.names = names;
    hf.translate = translateStablelm;
    return {"stablelm", readStablelmConfig, decoderTensors, loadDecoder, hf};
}

ModelFamily orionFamily()
{
    return {"orion", readOrionConfig, decoderTensors, loadDecoder};
}

} // namespace engine
