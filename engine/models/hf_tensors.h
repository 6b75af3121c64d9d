// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/io/checkpoint.h"
#include "engine/io/quantized_module.h"
#include "engine/io/safetensors_set.h"
#include "engine/models/hf_family.h"
#include "engine/models/hf_names.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace engine {

/// A tensor of ours and where its bytes come from.
struct HfTensor {
    TensorInfo info;
    const SafetensorsSet::Entry *source = nullptr; ///< whose pages it reads
    std::uint64_t offset = 0;                      ///< of its bytes in the source's, when they are taken as they are
    std::function<std::vector<std::byte>()> make;  ///< makes the bytes; empty: info.bytes of the source from `offset`
    std::vector<std::int32_t> columnOrder;         ///< as Checkpoint::columnOrder
    float activationScale = 0.0F;                  ///< as Checkpoint::activationScale
};

/// Tensors that one entry of a file becomes: itself under another name, or one for each expert.
/// \throws Error Refused naming file, tensor and shape where the form asks for another one
void addHfTensors(const SafetensorsSet &set, const SafetensorsSet::Entry &entry, const HfMatch &match,
                  std::vector<HfTensor> &out);

/// The matrix of a quantised module under `name`. \throws Error Refused, see readQuantizedModule
[[nodiscard]] HfTensor quantizedHfTensor(QuantizedMatrix matrix, std::string name);

/// An entry as it stands, under `name`.
[[nodiscard]] HfTensor plainHfTensor(const SafetensorsSet &set, const SafetensorsSet::Entry &entry, std::string name);

} // namespace engine
