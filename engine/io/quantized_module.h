// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/io/safetensors_set.h"
#include "kernels/dtype.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

/// How the weights of one module are stored, as the model's configuration says.
struct QuantizedScheme {
    enum class Layout {
        Gptq,       ///< qweight [in x bits / 32, out], packed along in
        AwqGemm,    ///< qweight [in, out / 8], packed along out in AWQ's order
        AwqGemv,    ///< qweight [out, in / 8], packed along in, in order
        Compressed, ///< compressed-tensors: weight_packed [out, in x bits / 32], or weight of I8 or 8-bit floats
        Float8,     ///< weight F8_E4M3 or F8_E5M2 [out, in] with weight_scale or weight_scale_inv
        Levels4,    ///< bitsandbytes, 4 bits: pairs of levels of NF4 or FP4, first one above
        Int8Rows,   ///< bitsandbytes, 8 bits: weight I8 [out, in], SCB [out] the largest of each row
    };
    /// How stored zeros become zeros. Source: AutoGPTQ and GPTQModel, see readQuantizedModule.
    enum class Zeros {
        AsStored,
        LessOne,        ///< one less in each field, modulo its bits (GPTQ v1)
        LessOneByWords, ///< one less in every field, taken off whole 32-bit words (GPTQ v1 as GPTQModel writes it)
    };

    Layout layout = Layout::Gptq;
    int bits = 4;               ///< 2, 3, 4 or 8
    std::int64_t groupSize = 0; ///< columns that share a scale; 0 = all
    bool symmetric = false;     ///< what the configuration claims
    bool needsZeros = false;    ///< it says that zeros are stored
    bool needsOrder = false;    ///< it says that columns lie in groups out of order
    Zeros zeros = Zeros::AsStored;
    bool inverseScales = false; ///< weight_scale_inv divides
    std::int64_t blockRows = 0; ///< of Float8 and Compressed; 0 = no blocks
    std::int64_t blockColumns = 0;
    bool int8Activations = false;  ///< activations are int8 around 0, with a scale for each row ...
    bool fixedActivations = false; ///< ... or one for all, in the tensor input_scale
};

/// The tensors of one module by what stands behind its name: "qweight", "weight.absmax", ...
struct QuantizedModule {
    std::string name;
    std::map<std::string, const SafetensorsSet::Entry *, std::less<>> parts;
};

/// A matrix [rows, columns] that can be made from a module.
struct QuantizedMatrix {
    kernels::DType type = kernels::DType::F32;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::vector<std::int32_t> columnOrder;         ///< of kernels::WeightPart; empty = in order
    float activationScale = 0.0F;                  ///< of kernels::WeightPart
    const SafetensorsSet::Entry *source = nullptr; ///< the largest part
    std::function<std::vector<std::byte>()> make;  ///< rows of blocks of `type`; reads the mapped files
    std::vector<std::string> warnings;             ///< whole sentences
};

/// The module and ending of a tensor that only quantised modules have ("a.qweight", "a.weight.absmax"), or of a weight
/// whose type has no meaning by itself; empty for all others.
struct ModulePart {
    std::string_view module;
    std::string_view ending;
};
[[nodiscard]] std::optional<ModulePart> quantizedPart(const SafetensorsTensor &tensor);

/// Says what a module's matrix is. Zeros, scales of FP8 blocks and column groups are looked at; the matrix itself is
/// not read before make(). The set must outlive what is returned.
///
/// Symmetric GPTQ zeros are judged by the data, with a warning where the configuration says something else: files of
/// both conventions carry both names. Asymmetric zeros of v1 that reach the end of their field are read as the tool
/// that wrote them meant, as far as that is known.
/// \throws Error Refused naming file, tensor, found and wanted: parts that are missing, unknown or of a wrong shape,
/// sizes that do not divide
/// Source: AutoGPTQ/AutoGPTQ qlinear_cuda_old.py, ModelCloud/GPTQModel, casper-hansen/AutoAWQ packing_utils.py,
/// vllm-project/compressed-tensors, deepseek-ai/DeepSeek-V3 README_WEIGHTS.md, bitsandbytes functional.py.
[[nodiscard]] QuantizedMatrix readQuantizedModule(const SafetensorsSet &set, const QuantizedModule &module,
                                                  const QuantizedScheme &scheme);

} // namespace engine
