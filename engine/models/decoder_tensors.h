// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/models/model_config.h"
#include "engine/models/tensor_names.h"

#include <vector>

namespace engine {

/// The tensors of a DecoderModel of that configuration. Families with tensors beyond these add to the list.
[[nodiscard]] std::vector<ExpectedTensor> decoderTensors(const ModelConfig &config);

// Parts of that list, for families that have other ones in some layers.
void addOuterTensors(const ModelConfig &config, std::vector<ExpectedTensor> &all); ///< embedding, head, factors
void addNormTensors(const ModelConfig &config, int layer, std::vector<ExpectedTensor> &all);
void addAttentionTensors(const ModelConfig &config, int layer, std::vector<ExpectedTensor> &all);
void addFeedForwardTensors(const ModelConfig &config, int layer, std::vector<ExpectedTensor> &all);

} // namespace engine
