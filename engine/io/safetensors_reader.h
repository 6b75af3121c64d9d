// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/error.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace engine {

/// One tensor as a safetensors header declares it.
struct SafetensorsTensor {
    std::string name;
    std::string type;                ///< a name that findSafetensorsType knows
    std::vector<std::int64_t> shape; ///< slowest dimension first; may hold zeros, empty for a scalar
    std::uint64_t offset = 0;        ///< absolute, in its file
    std::uint64_t bytes = 0;
};

/// All of one safetensors file but its data.
struct SafetensorsHeader {
    std::vector<SafetensorsTensor> tensors;                    ///< in header order
    std::vector<std::pair<std::string, std::string>> metadata; ///< of `__metadata__`
};

/// Reads and checks the header of the safetensors file whose bytes are given; `name` is for errors. The data must be
/// covered by the tensors exactly: no holes, no overlaps, nothing behind. Fields that the format does not have are
/// refused.
/// \throws Error Refused naming file, tensor, field, found and wanted
/// Source: huggingface/safetensors, README.md and safetensors/src/tensor.rs.
[[nodiscard]] SafetensorsHeader readSafetensors(std::span<const std::byte> bytes, const std::string &name);

} // namespace engine
