// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/models/tensor_names.h"
#include "kernels/ops.h"

#include <vector>

namespace engine {

struct ModelConfig;

/// How a file holds the matrices of experts.
enum class ExpertForm {
    Stacked, ///< "ffn_gate_exps" and so on, [experts, rows, columns]
    Merged,  ///< the same with "ffn_gate_up_exps", gate rows, then up rows
    Single,  ///< one tensor for each expert, "ffn_gate.3"
};

/// Experts of a mixture; none when `experts` is 0.
/// Source: Shazeer et al. 2017, arXiv:1701.06538; Jiang et al. 2024, arXiv:2401.04088.
struct MoeConfig {
    int experts = 0;
    int expertsUsed = 0;         ///< per token
    int intermediate = 0;        ///< width of one expert
    int sharedIntermediate = 0;  ///< width of the expert that every token takes; 0 = none
    bool sharedGate = false;     ///< which has a weight of its own, sigmoid(gate x)
    bool routerBias = false;     ///< ffn_gate_inp has a bias
    bool expertBias = false;     ///< gate, up and down have biases
    bool selectionBias = false;  ///< exp_probs_b is added to scores when experts are picked
    kernels::RouterShape router; ///< without the bias itself
    ExpertForm form = ExpertForm::Stacked;
};

/// What a family says where the file does not.
struct MoeDefaults {
    kernels::RouterShape::Scores scores = kernels::RouterShape::Scores::Softmax;
    bool normalise = false;
    bool sharedGate = false;
};

/// Reads `<architecture>.expert_*` and `leading_dense_block_count` into `config`, of which expert_count and
/// expert_used_count have been read, and says which layers have experts.
/// \throws Error Refused naming the key, what was found and what is wanted
void readMoe(const Checkpoint &checkpoint, ModelConfig &config, const MoeDefaults &defaults);

/// Adds the tensors of the feed-forward part of a layer with experts.
void addMoeTensors(const ModelConfig &config, int layer, std::vector<ExpectedTensor> &all);

} // namespace engine
