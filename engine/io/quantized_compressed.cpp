// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/quantized_layouts.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

namespace engine {
namespace {

using Entry = SafetensorsSet::Entry;

/// Which scale belongs to a row and a group of columns.
struct ScaleGrid {
    std::int64_t rowsPerScale = 1;
    ColumnGroups groups;

    [[nodiscard]] std::size_t at(std::int64_t row, std::int64_t group) const
    {
        return static_cast<std::size_t>(row / rowsPerScale * groups.count + group);
    }
};

struct Module {
    const Entry *weight = nullptr;
    const Entry *scales = nullptr;
    const Entry *zeros = nullptr;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    int bits = 8;
    bool inverse = false;
    ScaleGrid grid;
};

std::int64_t elementsOf(const Entry &entry)
{
    std::int64_t count = 1;
    for (const std::int64_t size : entry.tensor.shape)
        count *= size;
    return count;
}

/// One scale for all, one for each row, one for each group of a row, or one for each block of rows and columns.
ScaleGrid gridOf(const QuantizedParts &parts, const QuantizedScheme &scheme, const Module &module, const Entry *index)
{
    const Entry &scales = *module.scales;
    ScaleGrid grid;
    if (scheme.blockRows > 0) {
        grid.rowsPerScale = scheme.blockRows;
        grid.groups = evenGroups(parts, *module.weight, module.columns, scheme.blockColumns);
        parts.needShape(scales, {(module.rows + scheme.blockRows - 1) / scheme.blockRows, grid.groups.count});
        return grid;
    }
    if (elementsOf(scales) == 1) {
        grid.rowsPerScale = module.rows;
        grid.groups = evenGroups(parts, *module.weight, module.columns, 0);
        return grid;
    }
    grid.groups = indexedGroups(parts, *module.weight, index, module.columns, scheme.groupSize);
    if (scales.tensor.shape.size() != 1 || grid.groups.count != 1)
        parts.needShape(scales, {module.rows, grid.groups.count});
    else
        parts.needShape(scales, {module.rows});
    return grid;
}

/// A multiplier of an 8-bit weight is far below 1, and what divides it far above: the two are easily mixed up.
void checkSense(const QuantizedParts &parts, const Module &module)
{
    const std::vector<float> scales = floatsOf(parts.set(), *module.scales);
    const auto isLarge = [](float scale) { return scale > 1.0F; };
    const auto isSmall = [](float scale) { return scale < 1.0F; };
    if (!module.inverse && std::all_of(scales.begin(), scales.end(), isLarge))
        parts.refuse(*module.scales,
                     "holds numbers above 1 only, as scales that divide do, wanted scales that multiply,"
                     " which the configuration promises (weight_scale_semantics is not \"inverse\")");
    if (module.inverse && std::all_of(scales.begin(), scales.end(), isSmall))
        parts.refuse(*module.scales,
                     "holds numbers below 1 only, as scales that multiply do, wanted scales that divide,"
                     " which the configuration promises (weight_scale_semantics \"inverse\")");
}

std::vector<float> scalesOf(const SafetensorsSet &set, const Module &module)
{
    std::vector<float> scales = floatsOf(set, *module.scales);
    for (float &scale : scales)
        scale = module.inverse ? 1.0F / scale : scale;
    return scales;
}

/// Zeros as unsigned numbers, for every row and group. A tensor of I8 has one for each scale, one of I32 is packed
/// along the rows.
GroupZero zeroOf(const SafetensorsSet &set, const Module &module)
{
    const int middle = 1 << (module.bits - 1);
    if (module.zeros == nullptr)
        return [middle](std::int64_t, std::int64_t) { return middle; };
    if (module.zeros->tensor.type == "I8") {
        const auto bytes = set.bytes(*module.zeros);
        std::vector<std::int8_t> values(bytes.size());
        if (!values.empty())
            std::memcpy(values.data(), bytes.data(), bytes.size());
        return [values, grid = module.grid, middle](std::int64_t row, std::int64_t group) {
            return values[grid.at(row, group)] + middle;
        };
    }
    // Words of a group stand a row of words apart; as a stream they are one after another.
    const std::vector<std::uint32_t> words = wordsOf(set, *module.zeros);
    const std::int64_t groups = module.grid.groups.count;
    const std::int64_t height = module.zeros->tensor.shape[0];
    std::vector<std::uint32_t> streams(words.size());
    for (std::int64_t i = 0; i < height * groups; ++i)
        streams[static_cast<std::size_t>(i % groups * height + i / groups)] = words[static_cast<std::size_t>(i)];
    return [streams, height, bits = module.bits](std::int64_t row, std::int64_t group) {
        return static_cast<int>(packedNumber(streams.data() + group * height, row, bits));
    };
}

void checkZeros(const QuantizedParts &parts, const Module &module)
{
    if (module.zeros == nullptr)
        return;
    const Entry &zeros = *module.zeros;
    if (zeros.tensor.type == "I8") {
        if (elementsOf(zeros) != elementsOf(*module.scales))
            parts.refuse(zeros,
                         "has " + std::to_string(elementsOf(zeros)) + " numbers, wanted one for each of the "
                             + std::to_string(elementsOf(*module.scales)) + " scales");
        return;
    }
    parts.needType(zeros, "I32");
    if (module.grid.rowsPerScale != 1)
        parts.refuse(zeros, "is packed for every row, wanted scales of every row as well");
    parts.needShape(zeros, {(module.rows * module.bits + 31) / 32, module.grid.groups.count});
}

NumberMatrix numbersOf(const SafetensorsSet &set, const Module &module)
{
    NumberMatrix matrix;
    matrix.rows = module.rows;
    matrix.columns = module.columns;
    matrix.groups = module.grid.groups.ofBlocks;
    matrix.columnOrder = module.grid.groups.columnOrder;
    matrix.scale = [scales = scalesOf(set, module), grid = module.grid](std::int64_t row, std::int64_t group) {
        return scales[grid.at(row, group)];
    };
    return matrix;
}

std::vector<std::byte> makePacked(const SafetensorsSet &set, const Module &module, kernels::DType type)
{
    const std::vector<std::uint32_t> words = wordsOf(set, *module.weight);
    const std::int64_t width = module.weight->tensor.shape[1];
    NumberMatrix matrix = numbersOf(set, module);
    matrix.zero = zeroOf(set, module);
    matrix.numbers = [&](std::int64_t first, int count, std::uint8_t *target) {
        for (int r = 0; r < count; ++r) {
            for (std::int64_t k = 0; k < module.columns; ++k)
                *target++ = static_cast<std::uint8_t>(packedNumber(words.data() + (first + r) * width, k, module.bits));
        }
    };
    return makeRows(matrix, type);
}

std::vector<std::byte> makeBytes(const SafetensorsSet &set, const Module &module, kernels::DType type)
{
    const bool isFloat = type == kernels::DType::FP8 || type == kernels::DType::FP8_E5M2;
    const std::span<const std::byte> bytes = set.bytes(*module.weight);
    NumberMatrix matrix = numbersOf(set, module);
    if (!isFloat)
        matrix.zero = zeroOf(set, module);
    matrix.numbers = [&](std::int64_t first, int count, std::uint8_t *target) {
        const std::byte *source = bytes.data() + first * module.columns;
        for (std::int64_t i = 0; i < count * module.columns; ++i)
            target[i] = static_cast<std::uint8_t>(isFloat ? source[i] : source[i] ^ std::byte{0x80});
    };
    return makeRows(matrix, type);
}

/// One number, above 0.
float activationScaleOf(const QuantizedParts &parts)
{
    const Entry &entry = parts.need("input_scale");
    parts.needFloats(entry);
    if (elementsOf(entry) != 1)
        parts.refuse(entry, "has " + std::to_string(elementsOf(entry)) + " numbers, wanted one for all activations");
    const float scale = floatsOf(parts.set(), entry)[0];
    if (!std::isfinite(scale) || scale <= 0.0F)
        parts.refuse(entry, "is " + std::to_string(scale) + ", wanted a scale above 0");
    return scale;
}

QuantizedMatrix matrixOf(const QuantizedParts &parts, const QuantizedScheme &scheme, const Module &module)
{
    QuantizedMatrix matrix;
    matrix.rows = module.rows;
    matrix.columns = module.columns;
    matrix.columnOrder = module.grid.groups.columnOrder;
    matrix.source = module.weight;
    const bool middle =
        allZerosAre(zeroOf(parts.set(), module), module.rows, module.grid.groups.count, 1 << (module.bits - 1));
    matrix.type = integerType(module.bits, middle, module.scales->tensor);
    if (scheme.int8Activations && module.bits == 8 && middle) {
        matrix.type = kernels::DType::W8A8;
        matrix.activationScale = scheme.fixedActivations ? activationScaleOf(parts) : 0.0F;
    }
    return matrix;
}

/// The sizes that weight_shape holds, which must be those of the packed numbers.
void checkShape(const QuantizedParts &parts, const Entry &entry, Module &module)
{
    parts.needType(entry, "I64");
    parts.needShape(entry, {2});
    std::int64_t sizes[2];
    std::memcpy(sizes, parts.set().bytes(entry).data(), sizeof sizes);
    const std::int64_t words = module.weight->tensor.shape[1];
    if (sizes[0] != module.rows || sizes[1] <= 0 || sizes[1] > module.columns
        || (sizes[1] * module.bits + 31) / 32 != words)
        parts.refuse(entry,
                     "says [" + std::to_string(sizes[0]) + ", " + std::to_string(sizes[1])
                         + "], wanted the sizes of weight_packed, [" + std::to_string(module.rows) + ", "
                         + std::to_string(module.columns) + "]");
    module.columns = sizes[1];
}

} // namespace

QuantizedMatrix readPacked(const QuantizedParts &parts, const QuantizedScheme &scheme)
{
    parts.refuseOthers({"weight_packed", "weight_scale", "weight_shape", "weight_zero_point", "weight_g_idx"});
    Module module;
    module.bits = scheme.bits;
    module.weight = &parts.need("weight_packed");
    module.scales = &parts.need("weight_scale");
    module.zeros = scheme.needsZeros ? &parts.need("weight_zero_point") : parts.find("weight_zero_point");
    parts.needType(*module.weight, "I32");
    parts.needDimensions(*module.weight, 2);
    parts.needFloats(*module.scales);
    module.rows = module.weight->tensor.shape[0];
    module.columns = module.weight->tensor.shape[1] * 32 / module.bits;
    if (const Entry *shape = parts.find("weight_shape"))
        checkShape(parts, *shape, module);
    module.grid =
        gridOf(parts, scheme, module, scheme.needsOrder ? &parts.need("weight_g_idx") : parts.find("weight_g_idx"));
    checkZeros(parts, module);
    QuantizedMatrix matrix = matrixOf(parts, scheme, module);
    matrix.make = [set = &parts.set(), module = std::make_shared<const Module>(std::move(module)), type = matrix.type] {
        return makePacked(*set, *module, type);
    };
    return matrix;
}

QuantizedMatrix readBytes(const QuantizedParts &parts, const QuantizedScheme &scheme)
{
    Module module;
    module.weight = &parts.need("weight");
    const std::string &stored = module.weight->tensor.type;
    const bool isFloat = stored == "F8_E4M3" || stored == "F8_E5M2";
    if (!isFloat && scheme.layout == QuantizedScheme::Layout::Float8)
        parts.needType(*module.weight, "F8_E4M3");
    const bool named = parts.find("weight_scale_inv") != nullptr;
    const char *scaleName = named ? "weight_scale_inv" : "weight_scale";
    parts.refuseOthers(
        {"weight", scaleName, isFloat ? "weight" : "weight_zero_point", isFloat ? "weight" : "weight_shape"});
    if (!isFloat)
        parts.needType(*module.weight, "I8");
    parts.needDimensions(*module.weight, 2);
    module.scales = &parts.need(scaleName);
    if (!isFloat)
        module.zeros = scheme.needsZeros ? &parts.need("weight_zero_point") : parts.find("weight_zero_point");
    parts.needFloats(*module.scales);
    module.rows = module.weight->tensor.shape[0];
    module.columns = module.weight->tensor.shape[1];
    module.inverse = named && scheme.inverseScales;
    module.grid = gridOf(parts, scheme, module, nullptr);
    checkZeros(parts, module);
    if (named)
        checkSense(parts, module);
    QuantizedMatrix matrix = matrixOf(parts, scheme, module);
    if (isFloat)
        matrix.type = stored == "F8_E5M2" ? kernels::DType::FP8_E5M2 : kernels::DType::FP8;
    matrix.make = [set = &parts.set(), module = std::make_shared<const Module>(std::move(module)), type = matrix.type] {
        return makeBytes(*set, *module, type);
    };
    return matrix;
}

} // namespace engine
