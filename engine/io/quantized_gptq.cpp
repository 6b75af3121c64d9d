// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/quantized_layouts.h"

#include <algorithm>
#include <memory>

namespace engine {
namespace {

using Entry = SafetensorsSet::Entry;
using Zeros = QuantizedScheme::Zeros;

/// Sizes and parts of one GPTQ module.
struct Gptq {
    const Entry *weight = nullptr;
    const Entry *zeros = nullptr;
    const Entry *scales = nullptr;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    int bits = 0;
    ColumnGroups groups;
};

Gptq gptqOf(const QuantizedParts &parts, const QuantizedScheme &scheme)
{
    parts.refuseOthers({"qweight", "qzeros", "scales", "g_idx"});
    Gptq module;
    module.weight = &parts.need("qweight");
    module.zeros = &parts.need("qzeros");
    module.scales = &parts.need("scales");
    module.bits = scheme.bits;
    parts.needType(*module.weight, "I32");
    parts.needDimensions(*module.weight, 2);
    const std::int64_t words = module.weight->tensor.shape[0];
    module.rows = module.weight->tensor.shape[1];
    if (words * 32 % module.bits != 0)
        parts.refuse(*module.weight,
                     "has " + std::to_string(words) + " words of 32 bits in each column, which do not hold a"
                         + " whole number of " + std::to_string(module.bits) + " bits");
    module.columns = words * 32 / module.bits;
    if (module.rows * module.bits % 32 != 0)
        parts.refuse(*module.weight,
                     "has " + std::to_string(module.rows) + " outputs, whose zeros of " + std::to_string(module.bits)
                         + " bits do not fill whole words of 32");
    module.groups = indexedGroups(parts, *module.weight, scheme.needsOrder ? &parts.need("g_idx") : parts.find("g_idx"),
                                  module.columns, scheme.groupSize);
    parts.needType(*module.zeros, "I32");
    parts.needShape(*module.zeros, {module.groups.count, module.rows * module.bits / 32});
    parts.needFloats(*module.scales);
    parts.needShape(*module.scales, {module.groups.count, module.rows});
    return module;
}

/// One in every field of a word.
std::uint32_t onesOf(int bits)
{
    return 0xffffffffU / ((1U << bits) - 1U);
}

/// Zeros [groups, rows] of the numbers.
std::vector<std::uint8_t> zerosOf(const SafetensorsSet &set, const Gptq &module, Zeros rule)
{
    std::vector<std::uint32_t> words = wordsOf(set, *module.zeros);
    if (rule == Zeros::LessOneByWords && module.bits != 3) {
        for (std::uint32_t &word : words)
            word += onesOf(module.bits);
        rule = Zeros::AsStored;
    }
    const std::uint32_t mask = (1U << module.bits) - 1U;
    std::vector<std::uint8_t> zeros(static_cast<std::size_t>(module.groups.count * module.rows));
    for (std::size_t i = 0; i < zeros.size(); ++i) {
        const std::uint32_t stored = packedNumber(words.data(), static_cast<std::int64_t>(i), module.bits);
        zeros[i] = static_cast<std::uint8_t>(rule == Zeros::AsStored ? stored : (stored + 1) & mask);
    }
    return zeros;
}

bool areAll(const std::vector<std::uint8_t> &zeros, std::uint32_t value)
{
    return std::all_of(zeros.begin(), zeros.end(), [value](std::uint8_t zero) { return zero == value; });
}

/// Which rule the zeros follow: that of the configuration, unless they are those of a symmetric file by the other one.
Zeros ruleOf(const Gptq &module, const QuantizedScheme &scheme, const std::vector<std::uint8_t> &stored,
             QuantizedMatrix &matrix, const std::string &name)
{
    const std::uint32_t middle = 1U << (module.bits - 1);
    const std::uint32_t last = (1U << module.bits) - 1U;
    const bool plain = scheme.zeros == Zeros::AsStored;
    const std::string about = "the zeros of " + name + " ";
    if (scheme.symmetric && areAll(stored, plain ? middle - 1 : middle)) {
        matrix.warnings.push_back(about + "are those of a symmetric " + (plain ? "gptq" : "gptq_v2")
                                  + " file, although the configuration says " + (plain ? "gptq_v2" : "gptq")
                                  + "; they are read as what they are");
        return plain ? Zeros::LessOne : Zeros::AsStored;
    }
    if (!plain && std::find(stored.begin(), stored.end(), last) != stored.end())
        matrix.warnings.push_back(
            about + "reach the end of their bits, where writers of the gptq format disagree; they are"
            + (scheme.zeros == Zeros::LessOneByWords ? " read word by word, as GPTQModel writes them"
                                                     : " read as zeros of 0")
            + ", and files of the gptq_v2 format do not have this doubt");
    return scheme.zeros;
}

/// Numbers of some rows out of words [words of a column, rows].
void unpackColumns(const std::vector<std::uint32_t> &words, const Gptq &module, std::int64_t first, int count,
                   std::uint8_t *target)
{
    const std::int64_t columnWords = module.weight->tensor.shape[0];
    if (module.bits != 3) { // no number lies in two words
        for (std::int64_t w = 0; w < columnWords; ++w) {
            for (int r = 0; r < count; ++r)
                unpackWord(words[static_cast<std::size_t>(w * module.rows + first + r)], module.bits,
                           target + r * module.columns + w * 32 / module.bits);
        }
        return;
    }
    std::vector<std::uint32_t> column(static_cast<std::size_t>(numberRows * columnWords));
    for (std::int64_t w = 0; w < columnWords; ++w) {
        for (int r = 0; r < count; ++r)
            column[static_cast<std::size_t>(r * columnWords + w)] =
                words[static_cast<std::size_t>(w * module.rows + first + r)];
    }
    for (int r = 0; r < count; ++r) {
        for (std::int64_t k = 0; k < module.columns; ++k)
            *target++ = static_cast<std::uint8_t>(packedNumber(column.data() + r * columnWords, k, module.bits));
    }
}

std::vector<std::byte> makeGptq(const SafetensorsSet &set, const Gptq &module, Zeros rule, kernels::DType type)
{
    const std::vector<std::uint32_t> words = wordsOf(set, *module.weight);
    const std::vector<float> scales = floatsOf(set, *module.scales);
    const std::vector<std::uint8_t> zeros = zerosOf(set, module, rule);
    NumberMatrix matrix;
    matrix.rows = module.rows;
    matrix.columns = module.columns;
    matrix.groups = module.groups.ofBlocks;
    matrix.columnOrder = module.groups.columnOrder;
    matrix.numbers = [&](std::int64_t first, int count, std::uint8_t *target) {
        unpackColumns(words, module, first, count, target);
    };
    const auto at = [&module](std::int64_t row, std::int64_t group) {
        return static_cast<std::size_t>(group * module.rows + row);
    };
    matrix.scale = [&](std::int64_t row, std::int64_t group) { return scales[at(row, group)]; };
    matrix.zero = [&](std::int64_t row, std::int64_t group) -> int { return zeros[at(row, group)]; };
    return makeRows(matrix, type);
}

} // namespace

QuantizedMatrix readGptq(const QuantizedParts &parts, const QuantizedScheme &scheme)
{
    const auto module = std::make_shared<const Gptq>(gptqOf(parts, scheme));
    QuantizedMatrix matrix;
    matrix.rows = module->rows;
    matrix.columns = module->columns;
    matrix.columnOrder = module->groups.columnOrder;
    matrix.source = module->weight;
    const Zeros rule = ruleOf(*module, scheme, zerosOf(parts.set(), *module, Zeros::AsStored), matrix, parts.name());
    const std::vector<std::uint8_t> zeros = zerosOf(parts.set(), *module, rule);
    matrix.type = integerType(module->bits, areAll(zeros, 1U << (module->bits - 1)), module->scales->tensor);
    matrix.make = [set = &parts.set(), module, rule, type = matrix.type] {
        return makeGptq(*set, *module, rule, type);
    };
    return matrix;
}

} // namespace engine
