// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/models/hf_checkpoint.h"
#include "engine/models/hf_quantization.h"
#include "engine/models/hf_tensors.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace engine {

/// The quantised modules of a folder: takes the tensors that belong to them, and makes one of ours out of each.
class HfModules {
public:
    /// Looks through the names of all tensors. \throws Error Refused for a configuration that cannot be honoured
    HfModules(const SafetensorsSet &set, const HfModelConfig &model, const std::string &folder);

    /// Whether the entry is part of a quantised module.
    [[nodiscard]] bool take(const SafetensorsSet::Entry &entry) const;
    /// Adds the matrices of all modules, without those of layers from `layers` on (-1 = none are left out), and returns
    /// how many tensors were left out. \throws Error Refused
    [[nodiscard]] std::size_t addTensors(std::int64_t layers, std::vector<HfTensor> &tensors,
                                         std::vector<std::string> &warnings) const;

private:
    void collect();
    [[nodiscard]] bool isUnused(const QuantizedModule &module) const;

    const SafetensorsSet &m_set;
    const HfModelConfig &m_model;
    std::string m_folder;
    std::optional<HfQuantization> m_quantization;
    std::map<std::string, QuantizedModule, std::less<>> m_modules;
};

} // namespace engine
