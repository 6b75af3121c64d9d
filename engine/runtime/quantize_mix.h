// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/dtype.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

/// What a whole model is quantized to: one type, or a mix that gives some matrices better ones.
struct QuantizeMix {
    std::string_view name;
    kernels::DType type;    ///< of most matrices
    std::uint32_t fileType; ///< general.file_type. Source: llama.cpp, llama_ftype
};

/// Facts of a model that mixes look at.
struct MixModel {
    int layers = 0;
    int heads = 0;
    int kvHeads = 0;
    int experts = 0;
    bool hasOutput = false; ///< a head of its own; else the embedding is the head
    bool hasImportance = false;
};

/// Null when there is none of that name; letter case does not count.
[[nodiscard]] const QuantizeMix *findQuantizeMix(std::string_view name);
[[nodiscard]] std::vector<std::string> quantizeMixNames();

/// The type that a mix gives to a matrix, before rows that do not fit are looked at.
/// Source: llama.cpp, src/llama-quant.cpp.
[[nodiscard]] kernels::DType mixedType(const QuantizeMix &mix, const MixModel &model, std::string_view tensor);

/// `type`, or what stands in for it when rows of `columns` are no whole blocks: Q2_K, Q3_K and TQ become Q4_0, Q4_K
/// Q5_0, Q5_K Q5_1, Q6_K Q8_0, IQ types IQ4_NL; F16 when 32 does not divide them.
[[nodiscard]] kernels::DType fittingType(kernels::DType type, std::int64_t columns);

/// Whether a tensor is a matrix that gets another type; norms, biases, routers, positions stay as they are.
[[nodiscard]] bool isQuantizedMatrix(std::string_view tensor, const std::vector<std::int64_t> &shape);

/// Whether the pattern of `--keep` names a tensor (see QuantizeOptions::keep).
[[nodiscard]] bool matchesTensor(std::string_view pattern, std::string_view tensor);

} // namespace engine
