// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/safetensors_types.h"

#include <algorithm>
#include <array>

namespace engine {
namespace {

using kernels::DType;

constexpr std::array types = {
    SafetensorsType{"BOOL", 8, {}},           SafetensorsType{"U8", 8, {}},
    SafetensorsType{"I8", 8, DType::I8},      SafetensorsType{"U16", 16, {}},
    SafetensorsType{"I16", 16, DType::I16},   SafetensorsType{"U32", 32, {}},
    SafetensorsType{"I32", 32, DType::I32},   SafetensorsType{"U64", 64, {}},
    SafetensorsType{"I64", 64, DType::I64},   SafetensorsType{"F16", 16, DType::F16},
    SafetensorsType{"BF16", 16, DType::BF16}, SafetensorsType{"F32", 32, DType::F32},
    SafetensorsType{"F64", 64, DType::F64},   SafetensorsType{"C64", 64, {}},
    SafetensorsType{"F8_E5M2", 8, {}},        SafetensorsType{"F8_E4M3", 8, {}},
    SafetensorsType{"F8_E5M2FNUZ", 8, {}},    SafetensorsType{"F8_E4M3FNUZ", 8, {}},
    SafetensorsType{"F8_E8M0", 8, {}},        SafetensorsType{"F6_E2M3", 6, {}},
    SafetensorsType{"F6_E3M2", 6, {}},        SafetensorsType{"F4", 4, {}},
};

} // namespace

const SafetensorsType *findSafetensorsType(std::string_view name)
{
    const auto found =
        std::find_if(types.begin(), types.end(), [name](const SafetensorsType &type) { return type.name == name; });
    return found == types.end() ? nullptr : &*found;
}

} // namespace engine
