// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/dtype.h"

#include <optional>
#include <string_view>

namespace engine {

/// An element type of the safetensors format.
struct SafetensorsType {
    std::string_view name;               ///< as the header spells it
    int bits = 0;                        ///< of one element
    std::optional<kernels::DType> dtype; ///< empty: bytes that only a quantised module gives a meaning
};

/// Null for a name that the format does not have.
/// Source: huggingface/safetensors:safetensors/src/tensor.rs.
[[nodiscard]] const SafetensorsType *findSafetensorsType(std::string_view name);

} // namespace engine
