// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/ops.h"

#include <span>
#include <vector>

namespace engine {

class ConfigReader;

enum class RopeScaling {
    None,
    Linear,   ///< all frequencies divided by `factor`
    Dynamic,  ///< the base grows with the length of the sequence beyond `originalContext`
    Yarn,     ///< slow frequencies divided by `factor`, fast ones kept, a ramp between
    Llama3,   ///< the same with wavelengths of `lowFrequencyFactor` and `highFrequencyFactor` as borders
    LongRope, ///< each frequency divided by a factor of its own, one set for short and one for long sequences
};

/// Rotary embedding of one kind of layer as the checkpoint describes it; makeRopeTable makes the frequencies.
struct RopeConfig {
    double base = 10000.0;
    int dimensions = 0;      ///< leading elements of a head that rotate, even; 0 = none
    bool interleaved = true; ///< pairs (2i, 2i + 1); else (i, i + dimensions / 2)
    RopeScaling scaling = RopeScaling::None;
    double factor = 1.0;          ///< of the context
    int originalContext = 0;      ///< tokens that the model was trained on before scaling
    double attentionFactor = 1.0; ///< of cosines and sines; yarn: multiplies the one derived from `factor`
    double betaFast = 32.0;
    double betaSlow = 1.0;
    double extrapolation = 1.0; ///< yarn: share of the ramp that is applied
    bool truncate = true;       ///< yarn: the ramp begins and ends at whole pairs
    double lowFrequencyFactor = 1.0;
    double highFrequencyFactor = 4.0;
    std::vector<float> shortFactors; ///< longrope: [dimensions / 2], divide the frequencies; empty: in a tensor
    std::vector<float> longFactors;
};

/// Which table a sequence uses, by its length. The tokens of a sequence all use the same one, so a sequence whose
/// variant changes is computed again. Source: transformers, modeling_rope_utils (dynamic_frequency_update,
/// longrope_frequency_update).
struct RopeVariants {
    int switchLength = 0;   ///< longer sequences are of another variant than 0; 0 = there is only one
    bool perLength = false; ///< every length beyond is a variant of its own

    [[nodiscard]] int of(int length) const
    {
        if (switchLength == 0 || length <= switchLength)
            return 0;
        return perLength ? length - switchLength : 1;
    }
};

/// Variants that `rope` has.
[[nodiscard]] RopeVariants ropeVariants(const RopeConfig &rope);

/// The frequencies of one kind of layer for sequences of one variant. `factors` divide them, [dimensions / 2] or
/// empty (Llama 3, longrope).
/// Source: Su et al. 2021, arXiv:2104.09864; yarn: Peng et al. 2023, arXiv:2309.00071, sections 3.2 to 3.4;
/// longrope: Ding et al. 2024, arXiv:2402.13753; dynamic and llama3: transformers, modeling_rope_utils.
[[nodiscard]] kernels::RopeTable makeRopeTable(const RopeConfig &rope, std::span<const float> factors, int variant = 0);

/// Writes the frequencies of another variant into a table of the same sizes, allocating nothing.
void fillRopeTable(const RopeConfig &rope, std::span<const float> factors, int variant, kernels::RopeTable &table);

/// Where the scaling of a kind of layer stands: "rope.scaling." or "rope.scaling_swa.", and what else it depends on.
struct RopeKeys {
    const char *scaling = "rope.scaling.";
    int contextLength = 0;
    bool factorTensors = false; ///< the file has rope_factors_short and rope_factors_long, which say longrope
};

/// Reads `rope.scaling.*` into `rope`, whose base and dimensions are known.
/// \throws Error Refused naming the key, what was found and what is wanted
void readRopeScaling(const ConfigReader &reader, const RopeKeys &keys, RopeConfig &rope);

/// Reads everything about the rotary embedding of layers without a window.
[[nodiscard]] RopeConfig readRope(const ConfigReader &reader, int headDim, const RopeKeys &keys, bool interleaved);

} // namespace engine
