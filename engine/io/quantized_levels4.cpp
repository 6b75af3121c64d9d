// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/core/json.h"
#include "engine/core/printable.h"
#include "engine/io/quantized_layouts.h"
#include "kernels/float_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>

namespace engine {
namespace {

using Entry = SafetensorsSet::Entry;

constexpr std::int64_t nestedBlock = 256;

/// What differs between the two kinds of levels.
struct Kind {
    const char *name; ///< of quant_type, and at the end of the state's name
    const std::array<float, 16> &levels;
    std::array<kernels::DType, 3> types; ///< of weights that were float32, float16, bfloat16
};

const Kind &kindOf(const QuantizedParts &parts)
{
    using kernels::DType;
    static const Kind nf4{"nf4", kernels::nf4Levels, {DType::NF4, DType::NF4_F16, DType::NF4_BF16}};
    static const Kind fp4{"fp4", kernels::fp4Levels, {DType::FP4, DType::FP4_F16, DType::FP4_BF16}};
    return parts.find("weight.quant_state.bitsandbytes__fp4") != nullptr ? fp4 : nf4;
}

struct Levels4 {
    kernels::DType type = kernels::DType::NF4;
    const Entry *weight = nullptr;
    const Entry *largest = nullptr;       ///< of every block; U8 when they are quantised themselves
    const Entry *nestedLargest = nullptr; ///< null: not quantised
    const Entry *nestedMap = nullptr;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t block = 0;
    std::int64_t nested = nestedBlock;
    float offset = 0.0F;
};

std::int64_t integerOf(const QuantizedParts &parts, const Entry &state, const Json &json, const char *key)
{
    const auto found = json.find(key);
    if (found == json.end() || !found->is_number_integer())
        parts.refuse(state, "has no integer " + inQuotes(key));
    return found->get<std::int64_t>();
}

void readSizes(const QuantizedParts &parts, const Entry &state, const Json &json, const Kind &kind, Levels4 &module)
{
    const auto type = json.find("quant_type");
    if (type == json.end() || *type != kind.name)
        parts.refuse(state,
                     "has the quant_type " + (type == json.end() ? "none" : inQuotes(type->dump())) + ", wanted "
                         + kind.name);
    const auto shape = json.find("shape");
    const bool sound = shape != json.end() && shape->is_array() && shape->size() == 2
        && std::all_of(shape->begin(), shape->end(), [](const Json &size) {
                           return size.is_number_integer() && size.get<std::int64_t>() > 0
                               && size.get<std::int64_t>() < std::int64_t{1} << 31;
                       });
    if (!sound)
        parts.refuse(state, "has no shape of two sizes above 0");
    module.rows = (*shape)[0].get<std::int64_t>();
    module.columns = (*shape)[1].get<std::int64_t>();
    module.block = integerOf(parts, state, json, "blocksize");
    if (module.block < 32 || module.block % 32 != 0 || module.block > 1 << 20)
        parts.refuse(state, "has the blocksize " + std::to_string(module.block) + ", wanted a multiple of 32");
}

/// The type that weights had, to which their values are rounded.
kernels::DType roundedType(const QuantizedParts &parts, const Entry &state, const Json &json, const Kind &kind)
{
    const auto dtype = json.find("dtype");
    if (dtype != json.end() && *dtype == "float32")
        return kind.types[0];
    if (dtype != json.end() && *dtype == "float16")
        return kind.types[1];
    if (dtype != json.end() && *dtype == "bfloat16")
        return kind.types[2];
    parts.refuse(state,
                 "has the dtype " + (dtype == json.end() ? "none" : inQuotes(dtype->dump()))
                     + ", wanted float32, float16 or bfloat16");
}

void readNested(const QuantizedParts &parts, const Entry &state, const Json &json, Levels4 &module)
{
    module.nestedLargest = &parts.need("weight.nested_absmax");
    module.nestedMap = &parts.need("weight.nested_quant_map");
    parts.needType(*module.largest, "U8");
    parts.needType(*module.nestedLargest, "F32");
    parts.needType(*module.nestedMap, "F32");
    parts.needShape(*module.nestedMap, {256});
    module.nested = integerOf(parts, state, json, "nested_blocksize");
    if (module.nested < 1 || module.nested > 1 << 20)
        parts.refuse(state, "has the nested_blocksize " + std::to_string(module.nested) + ", wanted 1 to 1048576");
    const auto offset = json.find("nested_offset");
    if (offset == json.end() || !offset->is_number())
        parts.refuse(state, "has no number \"nested_offset\"");
    module.offset = offset->get<float>();
    const std::int64_t blocks = module.largest->tensor.shape[0];
    parts.needShape(*module.nestedLargest, {(blocks + module.nested - 1) / module.nested});
}

/// Files carry the levels along; others than those of their kind would be another format.
void checkMap(const QuantizedParts &parts, const Kind &kind)
{
    const Entry &map = parts.need("weight.quant_map");
    parts.needType(map, "F32");
    parts.needShape(map, {16});
    const std::vector<float> levels = floatsOf(parts.set(), map);
    for (std::size_t i = 0; i < levels.size(); ++i) {
        if (!(std::fabs(levels[i] - kind.levels[i]) <= 1e-6F))
            parts.refuse(map,
                         "has " + std::to_string(levels[i]) + " as level " + std::to_string(i) + ", wanted "
                             + std::to_string(kind.levels[i]) + " of " + kind.name);
    }
}

Levels4 moduleOf(const QuantizedParts &parts)
{
    const Kind &kind = kindOf(parts);
    const std::string stateName = std::string("weight.quant_state.bitsandbytes__") + kind.name;
    parts.refuseOthers(
        {"weight", "weight.absmax", "weight.quant_map", "weight.nested_absmax", "weight.nested_quant_map", stateName});
    const Entry &state = parts.need(stateName);
    parts.needType(state, "U8");
    const std::span<const std::byte> text = parts.set().bytes(state);
    const Json json =
        parseJson({reinterpret_cast<const char *>(text.data()), text.size()}, inQuotes(state.tensor.name));
    if (!json.is_object())
        parts.refuse(state, "holds no JSON object");
    Levels4 module;
    module.weight = &parts.need("weight");
    module.largest = &parts.need("weight.absmax");
    readSizes(parts, state, json, kind, module);
    module.type = roundedType(parts, state, json, kind);
    checkMap(parts, kind);
    const std::int64_t elements = module.rows * module.columns;
    if (module.weight->tensor.bytes * 2 != static_cast<std::uint64_t>(elements))
        parts.refuse(*module.weight,
                     "has " + std::to_string(module.weight->tensor.bytes) + " bytes, wanted "
                         + std::to_string(elements / 2) + " for " + std::to_string(elements) + " weights of 4 bits");
    if (module.columns % 32 != 0)
        parts.refuse(*module.weight, "has " + std::to_string(module.columns) + " columns, wanted a multiple of 32");
    parts.needShape(*module.largest, {(elements + module.block - 1) / module.block});
    if (parts.find("weight.nested_absmax") != nullptr)
        readNested(parts, state, json, module);
    else
        parts.needType(*module.largest, "F32");
    return module;
}

/// The largest value of every block.
std::vector<float> largestOf(const SafetensorsSet &set, const Levels4 &module)
{
    if (module.nestedLargest == nullptr)
        return floatsOf(set, *module.largest);
    const std::vector<float> map = floatsOf(set, *module.nestedMap);
    const std::vector<float> scales = floatsOf(set, *module.nestedLargest);
    std::vector<float> values;
    for (const std::byte code : set.bytes(*module.largest)) {
        const float scaled =
            map[static_cast<std::size_t>(code)] * scales[values.size() / static_cast<std::size_t>(module.nested)];
        values.push_back(scaled + module.offset);
    }
    return values;
}

/// Blocks of the file run through the rows, so a row may begin inside one; every block of 32 lies in one of them.
std::vector<std::byte> makeLevels4(const SafetensorsSet &set, const Levels4 &module)
{
    const std::span<const std::byte> bytes = set.bytes(*module.weight);
    const std::vector<float> largest = largestOf(set, module);
    NumberMatrix matrix;
    matrix.rows = module.rows;
    matrix.columns = module.columns;
    for (std::int64_t b = 0; b < module.columns / 32; ++b)
        matrix.groups.push_back(static_cast<std::int32_t>(b));
    matrix.numbers = [&](std::int64_t first, int count, std::uint8_t *target) {
        for (std::int64_t i = 0; i < count * module.columns; ++i) {
            const std::int64_t at = first * module.columns + i;
            const auto pair = static_cast<unsigned>(bytes[static_cast<std::size_t>(at / 2)]);
            target[i] = static_cast<std::uint8_t>(at % 2 == 0 ? pair >> 4 : pair & 15U);
        }
    };
    matrix.scale = [&](std::int64_t row, std::int64_t group) {
        return largest[static_cast<std::size_t>((row * module.columns + group * 32) / module.block)];
    };
    return makeRows(matrix, module.type);
}

} // namespace

QuantizedMatrix readLevels4(const QuantizedParts &parts)
{
    const auto module = std::make_shared<const Levels4>(moduleOf(parts));
    QuantizedMatrix matrix;
    matrix.type = module->type;
    matrix.rows = module->rows;
    matrix.columns = module->columns;
    matrix.source = module->weight;
    matrix.make = [set = &parts.set(), module] { return makeLevels4(*set, *module); };
    return matrix;
}

} // namespace engine
