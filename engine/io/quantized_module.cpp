// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/quantized_module.h"

#include "engine/io/quantized_layouts.h"
#include "engine/io/quantized_parts.h"

#include <array>

namespace engine {
namespace {

/// What may stand behind a module's name. Those of which nothing here makes use are read too, so that they can be
/// refused by name.
constexpr std::array<std::string_view, 30> endings = {
    "qweight",
    "qzeros",
    "scales",
    "g_idx",
    "weight_packed",
    "weight_scale",
    "weight_scale_inv",
    "weight_shape",
    "weight_zero_point",
    "weight_g_idx",
    "weight_scale_2",
    "weight_global_scale",
    "input_global_scale",
    "input_scale",
    "input_zero_point",
    "output_scale",
    "k_scale",
    "v_scale",
    "pre_quant_scale",
    "SCB",
    "weight_format",
    "weight.SCB",
    "weight.absmax",
    "weight.quant_map",
    "weight.nested_absmax",
    "weight.nested_quant_map",
    "weight.quant_state.bitsandbytes__nf4",
    "weight.quant_state.bitsandbytes__fp4",
    "scale_2",
    "smoothquant_scale",
};

bool isOpaqueWeight(const SafetensorsTensor &tensor)
{
    return tensor.name.ends_with(".weight")
        && (tensor.type == "U8" || tensor.type == "I8" || tensor.type.starts_with("F8_") || tensor.type == "F4");
}

} // namespace

std::optional<ModulePart> quantizedPart(const SafetensorsTensor &tensor)
{
    const std::string_view name = tensor.name;
    for (const std::string_view ending : endings) {
        if (name.size() > ending.size() + 1 && name.ends_with(ending) && name[name.size() - ending.size() - 1] == '.')
            return ModulePart{name.substr(0, name.size() - ending.size() - 1), ending};
    }
    if (isOpaqueWeight(tensor))
        return ModulePart{name.substr(0, name.size() - std::string_view(".weight").size()), "weight"};
    return std::nullopt;
}

QuantizedMatrix readQuantizedModule(const SafetensorsSet &set, const QuantizedModule &module,
                                    const QuantizedScheme &scheme)
{
    using Layout = QuantizedScheme::Layout;
    const QuantizedParts parts(set, module);
    switch (scheme.layout) {
    case Layout::Gptq:
        return readGptq(parts, scheme);
    case Layout::AwqGemm:
        return readAwqGemm(parts, scheme);
    case Layout::AwqGemv:
        return readAwqGemv(parts, scheme);
    case Layout::Compressed:
        return parts.find("weight_packed") != nullptr ? readPacked(parts, scheme) : readBytes(parts, scheme);
    case Layout::Float8:
        return readBytes(parts, scheme);
    case Layout::Int8Rows:
        return readInt8Rows(parts);
    case Layout::Levels4:
        break;
    }
    return readLevels4(parts);
}

} // namespace engine
