// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/io/quantized_module.h"
#include "engine/io/quantized_parts.h"
#include "engine/io/quantized_rows.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace engine {

/// Readers of one layout each, for readQuantizedModule.
[[nodiscard]] QuantizedMatrix readGptq(const QuantizedParts &parts, const QuantizedScheme &scheme);
[[nodiscard]] QuantizedMatrix readAwqGemm(const QuantizedParts &parts, const QuantizedScheme &scheme);
[[nodiscard]] QuantizedMatrix readAwqGemv(const QuantizedParts &parts, const QuantizedScheme &scheme);
/// weight_packed of compressed-tensors.
[[nodiscard]] QuantizedMatrix readPacked(const QuantizedParts &parts, const QuantizedScheme &scheme);
/// weight of I8, F8_E4M3 or F8_E5M2, one element to a byte.
[[nodiscard]] QuantizedMatrix readBytes(const QuantizedParts &parts, const QuantizedScheme &scheme);
[[nodiscard]] QuantizedMatrix readLevels4(const QuantizedParts &parts);
[[nodiscard]] QuantizedMatrix readInt8Rows(const QuantizedParts &parts);

/// Columns and the groups that share a scale.
struct ColumnGroups {
    std::int64_t count = 0;
    std::vector<std::int32_t> ofBlocks;    ///< the group of each block of 32 columns, in their order
    std::vector<std::int32_t> columnOrder; ///< empty = in order
};

/// Groups of `groupSize` columns (0 = one group), the last one possibly shorter. Refuses, about `entry`, what does not
/// divide into blocks of 32.
[[nodiscard]] ColumnGroups evenGroups(const QuantizedParts &parts, const SafetensorsSet::Entry &entry,
                                      std::int64_t columns, std::int64_t groupSize);
/// The same for a tensor g_idx that says the group of every column; null, or zero everywhere: evenGroups.
[[nodiscard]] ColumnGroups indexedGroups(const QuantizedParts &parts, const SafetensorsSet::Entry &entry,
                                         const SafetensorsSet::Entry *index, std::int64_t columns,
                                         std::int64_t groupSize);

using GroupZero = std::function<int(std::int64_t row, std::int64_t group)>;

/// Whether all zeros are `value`.
[[nodiscard]] bool allZerosAre(const GroupZero &zero, std::int64_t rows, std::int64_t groups, int value);

/// The type for numbers of `bits` bits: a common one when the zeros are all in the middle and the scales F16.
[[nodiscard]] kernels::DType integerType(int bits, bool middleZeros, const SafetensorsTensor &scales);

} // namespace engine
