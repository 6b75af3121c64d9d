// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/quantized_layouts.h"

#include <array>
#include <memory>

namespace engine {
namespace {

using Entry = SafetensorsSet::Entry;

constexpr int bits = 4;
constexpr std::int64_t inWord = 8;
constexpr int middle = 8;

/// Which nibble of a word holds column 0, 1, ... of its eight. Source: AutoAWQ awq/utils/packing_utils.py.
constexpr std::array<int, inWord> nibbleOf = {0, 4, 1, 5, 2, 6, 3, 7};

struct Awq {
    const Entry *weight = nullptr;
    const Entry *zeros = nullptr; ///< null: zeros in the middle
    const Entry *scales = nullptr;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::int64_t scaleWidth = 0; ///< Gemv: scales of a row, padded
    ColumnGroups groups;
};

Awq partsOf(const QuantizedParts &parts, const QuantizedScheme &scheme)
{
    parts.refuseOthers({"qweight", "qzeros", "scales"});
    Awq module;
    module.weight = &parts.need("qweight");
    module.zeros = scheme.needsZeros ? &parts.need("qzeros") : parts.find("qzeros");
    module.scales = &parts.need("scales");
    parts.needType(*module.weight, "I32");
    parts.needDimensions(*module.weight, 2);
    parts.needFloats(*module.scales);
    if (module.zeros != nullptr)
        parts.needType(*module.zeros, "I32");
    return module;
}

int gemmNumber(std::uint32_t word, std::int64_t index)
{
    return static_cast<int>((word >> (bits * nibbleOf[static_cast<std::size_t>(index)])) & 15U);
}

/// A number of a matrix [x, rows / 8] packed along the rows.
int gemmNumber(const std::vector<std::uint32_t> &words, std::int64_t rows, std::int64_t x, std::int64_t row)
{
    return gemmNumber(words[static_cast<std::size_t>(x * (rows / inWord) + row / inWord)], row % inWord);
}

GroupZero gemmZero(const SafetensorsSet &set, const Awq &module)
{
    if (module.zeros == nullptr)
        return [](std::int64_t, std::int64_t) { return middle; };
    return [words = wordsOf(set, *module.zeros), rows = module.rows](std::int64_t row, std::int64_t group) {
        return gemmNumber(words, rows, group, row);
    };
}

GroupZero gemvZero(const SafetensorsSet &set, const Awq &module)
{
    if (module.zeros == nullptr)
        return [](std::int64_t, std::int64_t) { return middle; };
    return [words = wordsOf(set, *module.zeros), width = module.scaleWidth](std::int64_t row, std::int64_t group) {
        return static_cast<int>(packedNumber(words.data(), row * width + group, bits));
    };
}

QuantizedMatrix matrixOf(const Awq &module, const GroupZero &zero)
{
    QuantizedMatrix matrix;
    matrix.rows = module.rows;
    matrix.columns = module.columns;
    matrix.source = module.weight;
    matrix.type = integerType(bits, allZerosAre(zero, module.rows, module.groups.count, middle), module.scales->tensor);
    return matrix;
}

NumberMatrix numbersOf(const Awq &module)
{
    NumberMatrix matrix;
    matrix.rows = module.rows;
    matrix.columns = module.columns;
    matrix.groups = module.groups.ofBlocks;
    return matrix;
}

std::vector<std::byte> makeGemm(const SafetensorsSet &set, const Awq &module, kernels::DType type)
{
    const std::vector<std::uint32_t> words = wordsOf(set, *module.weight);
    const std::vector<float> scales = floatsOf(set, *module.scales);
    NumberMatrix matrix = numbersOf(module);
    matrix.zero = gemmZero(set, module);
    matrix.numbers = [&](std::int64_t first, int count, std::uint8_t *target) {
        std::array<std::uint8_t, inWord> fields{};
        for (std::int64_t k = 0; k < module.columns; ++k) {
            for (int r = 0; r < count; ++r) { // numberRows, as rows, are whole words
                if (r % inWord == 0)
                    unpackWord(words[static_cast<std::size_t>((k * module.rows + first + r) / inWord)], bits,
                               fields.data());
                target[r * module.columns + k] =
                    fields[static_cast<std::size_t>(nibbleOf[static_cast<std::size_t>(r % inWord)])];
            }
        }
    };
    matrix.scale = [&](std::int64_t row, std::int64_t group) {
        return scales[static_cast<std::size_t>(group * module.rows + row)];
    };
    return makeRows(matrix, type);
}

std::vector<std::byte> makeGemv(const SafetensorsSet &set, const Awq &module, kernels::DType type)
{
    const std::vector<std::uint32_t> words = wordsOf(set, *module.weight);
    const std::vector<float> scales = floatsOf(set, *module.scales);
    NumberMatrix matrix = numbersOf(module);
    matrix.zero = gemvZero(set, module);
    matrix.numbers = [&](std::int64_t first, int count, std::uint8_t *target) {
        for (std::int64_t i = 0; i < count * module.columns; i += inWord) // rows are whole words
            unpackWord(words[static_cast<std::size_t>((first * module.columns + i) / inWord)], bits, target + i);
    };
    matrix.scale = [&](std::int64_t row, std::int64_t group) {
        return scales[static_cast<std::size_t>(row * module.scaleWidth + group)];
    };
    return makeRows(matrix, type);
}

} // namespace

QuantizedMatrix readAwqGemm(const QuantizedParts &parts, const QuantizedScheme &scheme)
{
    const auto module = std::make_shared<Awq>(partsOf(parts, scheme));
    module->columns = module->weight->tensor.shape[0];
    module->rows = module->weight->tensor.shape[1] * inWord;
    module->groups = evenGroups(parts, *module->weight, module->columns, scheme.groupSize);
    parts.needShape(*module->scales, {module->groups.count, module->rows});
    if (module->zeros != nullptr)
        parts.needShape(*module->zeros, {module->groups.count, module->rows / inWord});
    QuantizedMatrix matrix = matrixOf(*module, gemmZero(parts.set(), *module));
    matrix.make = [set = &parts.set(), module, type = matrix.type] { return makeGemm(*set, *module, type); };
    return matrix;
}

QuantizedMatrix readAwqGemv(const QuantizedParts &parts, const QuantizedScheme &scheme)
{
    const auto module = std::make_shared<Awq>(partsOf(parts, scheme));
    module->rows = module->weight->tensor.shape[0];
    module->columns = module->weight->tensor.shape[1] * inWord;
    module->groups = evenGroups(parts, *module->weight, module->columns, scheme.groupSize);
    parts.needDimensions(*module->scales, 2);
    module->scaleWidth = module->scales->tensor.shape[1];
    if (module->scaleWidth % inWord != 0 || module->scaleWidth < module->groups.count)
        parts.refuse(*module->scales,
                     "has " + std::to_string(module->scaleWidth) + " scales in a row, wanted a multiple of "
                         + std::to_string(inWord) + " that holds " + std::to_string(module->groups.count) + " groups");
    parts.needShape(*module->scales, {module->rows, module->scaleWidth});
    if (module->zeros != nullptr)
        parts.needShape(*module->zeros, {module->rows, module->scaleWidth / inWord});
    QuantizedMatrix matrix = matrixOf(*module, gemvZero(parts.set(), *module));
    matrix.make = [set = &parts.set(), module, type = matrix.type] { return makeGemv(*set, *module, type); };
    return matrix;
}

} // namespace engine
