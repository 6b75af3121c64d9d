// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/quantized_layouts.h"

#include <memory>

namespace engine {
namespace {

using Entry = SafetensorsSet::Entry;

/// Of a row's largest number, which 127 stands for. Source: bitsandbytes functional.py, int8_vectorwise_dequant.
constexpr float perLargest = 7.874015718698502e-3F;

/// Tells how weights lie; 0 is by rows, others are tiles of some device.
void checkFormat(const QuantizedParts &parts)
{
    const Entry *format = parts.find("weight_format");
    if (format == nullptr)
        return;
    parts.needType(*format, "U8");
    for (const std::byte byte : parts.set().bytes(*format)) {
        if (byte != std::byte{0})
            parts.refuse(*format, "is " + std::to_string(static_cast<int>(byte)) + ", wanted 0, weights by rows");
    }
}

} // namespace

QuantizedMatrix readInt8Rows(const QuantizedParts &parts)
{
    parts.refuseOthers({"weight", "SCB", "weight_format"});
    const Entry &weight = parts.need("weight");
    const Entry &largest = parts.need("SCB");
    parts.needType(weight, "I8");
    parts.needDimensions(weight, 2);
    parts.needFloats(largest);
    checkFormat(parts);
    NumberMatrix matrix;
    matrix.rows = weight.tensor.shape[0];
    matrix.columns = weight.tensor.shape[1];
    parts.needShape(largest, {matrix.rows});
    matrix.groups = evenGroups(parts, weight, matrix.columns, 0).ofBlocks;

    QuantizedMatrix result;
    result.type = kernels::DType::INT8;
    result.rows = matrix.rows;
    result.columns = matrix.columns;
    result.source = &weight;
    result.make = [set = &parts.set(), &weight, &largest, matrix]() mutable {
        const std::span<const std::byte> bytes = set->bytes(weight);
        const std::vector<float> scales = floatsOf(*set, largest);
        matrix.numbers = [&](std::int64_t first, int count, std::uint8_t *target) {
            const std::byte *source = bytes.data() + first * matrix.columns;
            for (std::int64_t i = 0; i < count * matrix.columns; ++i)
                target[i] = static_cast<std::uint8_t>(source[i] ^ std::byte{0x80});
        };
        matrix.scale = [&](std::int64_t row, std::int64_t) {
            return scales[static_cast<std::size_t>(row)] * perLargest;
        };
        return makeRows(matrix, kernels::DType::INT8);
    };
    return result;
}

} // namespace engine
