// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/hf_modules.h"

#include "engine/core/printable.h"

#include <algorithm>

namespace engine {
namespace {

using Entry = SafetensorsSet::Entry;

constexpr std::string_view weightEnding = ".weight";

/// Scales that no weight has, such as those of an 8-bit cache.
bool isCacheScale(std::string_view ending)
{
    return ending == "k_scale" || ending == "v_scale" || ending == "output_scale" || ending == "input_scale";
}

/// One sentence for all modules, which usually give the same reason.
void addDoubts(const std::vector<std::string> &doubts, std::vector<std::string> &warnings)
{
    if (doubts.empty())
        return;
    const std::string more = doubts.size() > 1 ? " (" + std::to_string(doubts.size()) + " modules are like this)" : "";
    warnings.push_back(doubts.front() + more);
}

} // namespace

HfModules::HfModules(const SafetensorsSet &set, const HfModelConfig &model, const std::string &folder)
    : m_set(set)
    , m_model(model)
    , m_folder(folder)
    , m_quantization(HfQuantization::read(model.config, folder))
{
    collect();
}

void HfModules::collect()
{
    for (const Entry &entry : m_set.entries()) {
        if (const auto part = quantizedPart(entry.tensor)) {
            QuantizedModule &module = m_modules[std::string(part->module)];
            module.name = part->module;
            module.parts.emplace(part->ending, &entry);
        }
    }
    // A weight of an ordinary type belongs to its scales, where it has some.
    for (auto &[name, module] : m_modules) {
        const Entry *weight = m_set.find(name + std::string(weightEnding));
        if (weight != nullptr)
            module.parts.emplace("weight", weight);
    }
}

bool HfModules::isUnused(const QuantizedModule &module) const
{
    return std::all_of(module.parts.begin(), module.parts.end(), [](const auto &part) {
        const std::string &type = part.second->tensor.type;
        return isCacheScale(part.first)
            || (part.first == "weight" && (type == "F32" || type == "F16" || type == "BF16"));
    });
}

bool HfModules::take(const Entry &entry) const
{
    if (const auto part = quantizedPart(entry.tensor)) {
        const auto found = m_modules.find(part->module);
        return found != m_modules.end();
    }
    const std::string_view name = entry.tensor.name;
    if (!name.ends_with(weightEnding))
        return false;
    const auto found = m_modules.find(name.substr(0, name.size() - weightEnding.size()));
    return found != m_modules.end() && !isUnused(found->second);
}

std::size_t HfModules::addTensors(std::int64_t layers, std::vector<HfTensor> &tensors,
                                  std::vector<std::string> &warnings) const
{
    std::size_t leftOut = 0;
    std::size_t unused = 0;
    std::vector<std::string> doubts;
    for (const auto &[name, module] : m_modules) {
        if (isUnused(module)) {
            unused += module.parts.size();
            continue;
        }
        const Entry &first = *module.parts.begin()->second;
        if (!m_quantization)
            throw Error(ErrorCode::Refused,
                        inQuotes(m_set.filePath(first)) + ": tensor " + inQuotes(first.tensor.name)
                            + " belongs to a quantised module, but neither config.json (quantization_config) nor"
                              " quantize_config.json says how it is stored");
        const auto match = matchHfName(name + std::string(weightEnding), m_model.family->hf.names);
        if (match && layers >= 0 && match->layer >= layers) {
            leftOut += module.parts.size();
            continue;
        }
        if (match && match->form != HfForm::Plain)
            throw Error(ErrorCode::Refused,
                        inQuotes(m_set.filePath(first)) + ": tensor " + inQuotes(first.tensor.name)
                            + " is a quantised part of fused experts, which are read only as MXFP4");
        QuantizedMatrix matrix = readQuantizedModule(m_set, module, m_quantization->schemeOf(name));
        if (m_quantization->skips(name))
            doubts.push_back("the configuration leaves " + inQuotes(name)
                             + " in floats, but the weights hold it quantised, which is what is used");
        doubts.insert(doubts.end(), matrix.warnings.begin(), matrix.warnings.end());
        tensors.push_back(quantizedHfTensor(std::move(matrix), match ? match->gguf : name));
    }
    addDoubts(doubts, warnings);
    if (unused > 0)
        warnings.push_back(std::to_string(unused)
                           + " scales of activations or of the KV cache are not used: both are"
                             " computed in floats");
    return leftOut;
}

} // namespace engine
