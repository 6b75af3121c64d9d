// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/models/hf_family.h"
#include "engine/models/layers.h"
#include "engine/models/model.h"
#include "engine/models/tensor_names.h"

#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace engine {

/// A family of models: how its configuration is read, which tensors it has, and how it is made.
struct ModelFamily {
    std::string_view architecture; ///< general.architecture
    ModelConfig (*readConfig)(const Checkpoint &checkpoint);
    std::vector<ExpectedTensor> (*tensors)(const ModelConfig &config);
    /// \pre checkTensors has passed
    std::unique_ptr<Model> (*load)(const ModelConfig &config, WeightLoader &loader);
    HfFamily hf{}; ///< of Hugging Face folders
};

/// All families, one row each.
[[nodiscard]] std::span<const ModelFamily> modelFamilies();

/// \throws Error Refused naming the architecture and the known ones
[[nodiscard]] const ModelFamily &familyOf(const Checkpoint &checkpoint);

/// What the family of a model reads from it. \throws Error Refused, see ModelFamily::readConfig; the keys of a folder
/// are named as its config.json has them
[[nodiscard]] ModelConfig readModelConfig(const Checkpoint &checkpoint);

/// Refuses a model that could not be loaded whatever its types: by its keys, and by names and shapes of its tensors.
/// \throws Error Refused, as readModelConfig and checkTensors
void checkModel(const Checkpoint &checkpoint);

// One per family file.
[[nodiscard]] ModelFamily chatglmFamily();
[[nodiscard]] ModelFamily cohere2Family();
[[nodiscard]] ModelFamily commandRFamily();
[[nodiscard]] ModelFamily deepseek2Family();
[[nodiscard]] ModelFamily ernie45Family();
[[nodiscard]] ModelFamily exaoneFamily();
[[nodiscard]] ModelFamily exaone4Family();
[[nodiscard]] ModelFamily gemmaFamily();
[[nodiscard]] ModelFamily gemma2Family();
[[nodiscard]] ModelFamily gemma3Family();
[[nodiscard]] ModelFamily glm4Family();
[[nodiscard]] ModelFamily gpt2Family();
[[nodiscard]] ModelFamily gptNeoxFamily();
[[nodiscard]] ModelFamily gptOssFamily();
[[nodiscard]] ModelFamily graniteFamily();
[[nodiscard]] ModelFamily graniteMoeFamily();
[[nodiscard]] ModelFamily hunyuanFamily();
[[nodiscard]] ModelFamily internlm2Family();
[[nodiscard]] ModelFamily llamaFamily();
[[nodiscard]] ModelFamily minicpmFamily();
[[nodiscard]] ModelFamily olmo2Family();
[[nodiscard]] ModelFamily olmoeFamily();
[[nodiscard]] ModelFamily orionFamily();
[[nodiscard]] ModelFamily phi2Family();
[[nodiscard]] ModelFamily phi3Family();
[[nodiscard]] ModelFamily qwen2Family();
[[nodiscard]] ModelFamily qwen2MoeFamily();
[[nodiscard]] ModelFamily qwen3Family();
[[nodiscard]] ModelFamily qwen3MoeFamily();
[[nodiscard]] ModelFamily seedOssFamily();
[[nodiscard]] ModelFamily smollm3Family();
[[nodiscard]] ModelFamily stablelmFamily();
[[nodiscard]] ModelFamily starcoder2Family();
[[nodiscard]] ModelFamily xverseFamily();

} // namespace engine
