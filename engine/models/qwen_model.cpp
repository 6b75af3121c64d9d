// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/decoder_model.h"
#include "engine/models/decoder_tensors.h"
#include "engine/models/model_registry.h"

namespace engine {
namespace {

/// Biases on queries, keys and values. Source: Yang et al. 2024, arXiv:2407.10671.
ModelConfig readQwen2Config(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint);
    refuseExperts(config);
    refuseLogitScale(checkpoint, config);
    config.attentionBias = true;
    return config;
}

/// Normed queries and keys. Source: Yang et al. 2025, arXiv:2505.09388.
ModelConfig readQwen3Config(const Checkpoint &checkpoint)
{
    ModelConfig config = readCommonConfig(checkpoint);
    refuseExperts(config);
    refuseLogitScale(checkpoint, config);
    config.queryKeyNorm = QueryKeyNorm::Head;
    return config;
}

} // namespace

ModelFamily qwen2Family()
{
    HfFamily hf;
    hf.modelTypes = {"qwen2"};
    hf.architectures = {"Qwen2ForCausalLM"};
    hf.defaults = R"({"use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 28,
                      "max_position_embeddings": 32768})";
    return {"qwen2", readQwen2Config, decoderTensors, loadDecoder, hf};
}

ModelFamily qwen3Family()
{
    HfFamily hf;
    hf.modelTypes = {"qwen3"};
    hf.architectures = {"Qwen3ForCausalLM"};
    hf.defaults = R"({"use_sliding_window": false, "sliding_window": 4096, "max_window_layers": 28, "head_dim": 128,
                      "max_position_embeddings": 32768})";
    return {"qwen3", readQwen3Config, decoderTensors, loadDecoder, hf};
}

} // namespace engine
