// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/quantized_rows.h"

#include "engine/api/error.h"
#include "kernels/group_blocks.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace engine {
namespace {

using kernels::DType;

struct Block {
    std::array<std::uint8_t, blockColumns> numbers{};
    float scale = 0.0F;
    int zero = 0;
};

void storeNibbles(const Block &block, std::uint8_t *target)
{
    for (std::size_t j = 0; j < 16; ++j)
        target[j] = static_cast<std::uint8_t>((block.numbers[j] & 15) | block.numbers[j + 16] << 4);
}

/// Unsigned numbers around 128 as signed ones.
void storeSigned(const Block &block, std::uint8_t *target)
{
    for (const std::uint8_t number : block.numbers)
        *target++ = number ^ 0x80U;
}

std::uint8_t *storeHalf(float value, std::uint8_t *target)
{
    const std::uint16_t half = kernels::floatToHalf(value);
    std::memcpy(target, &half, sizeof half);
    return target + sizeof half;
}

std::uint8_t *storeFloat(float value, std::uint8_t *target)
{
    std::memcpy(target, &value, sizeof value);
    return target + sizeof value;
}

void storeGroup(DType type, const Block &block, std::uint8_t *target)
{
    kernels::GroupBlock group;
    group.numbers = block.numbers;
    group.scale = block.scale;
    group.zero = static_cast<std::uint8_t>(block.zero);
    kernels::writeGroupBlock(type, group, target);
}

void storeWithZero(const Block &block, std::uint8_t *target)
{
    target = storeFloat(block.scale, target);
    const auto zero = static_cast<std::int16_t>(block.zero);
    std::memcpy(target, &zero, sizeof zero);
    std::memcpy(target + sizeof zero, block.numbers.data(), block.numbers.size());
}

void store(DType type, const Block &block, std::uint8_t *target)
{
    switch (type) {
    case DType::Q4_0:
        return storeNibbles(block, storeHalf(block.scale, target));
    case DType::Q8_0:
        return storeSigned(block, storeHalf(block.scale, target));
    case DType::INT8:
    case DType::W8A8:
        return storeSigned(block, storeFloat(block.scale, target));
    case DType::NF4:
    case DType::NF4_F16:
    case DType::NF4_BF16:
    case DType::FP4:
    case DType::FP4_F16:
    case DType::FP4_BF16:
        return storeNibbles(block, storeFloat(block.scale, target));
    case DType::FP8:
    case DType::FP8_E5M2:
        std::memcpy(storeFloat(block.scale, target), block.numbers.data(), block.numbers.size());
        return;
    case DType::INT8Z:
        return storeWithZero(block, target);
    default:
        return storeGroup(type, block, target);
    }
}

} // namespace

std::vector<std::byte> makeRows(const NumberMatrix &matrix, DType type)
{
    CHECK(matrix.columns % blockColumns == 0
          && static_cast<std::int64_t>(matrix.groups.size()) == matrix.columns / blockColumns);
    std::vector<std::byte> result(static_cast<std::size_t>(matrix.rows) * kernels::rowBytes(type, matrix.columns));
    auto *target = reinterpret_cast<std::uint8_t *>(result.data());
    std::vector<std::uint8_t> numbers(static_cast<std::size_t>(numberRows * matrix.columns));
    Block block;
    for (std::int64_t first = 0; first < matrix.rows; first += numberRows) {
        const auto count = static_cast<int>(std::min<std::int64_t>(numberRows, matrix.rows - first));
        matrix.numbers(first, count, numbers.data());
        for (int r = 0; r < count; ++r) {
            const std::uint8_t *row = numbers.data() + r * matrix.columns;
            for (std::size_t b = 0; b < matrix.groups.size(); ++b, target += kernels::info(type).blockBytes) {
                for (std::size_t i = 0; i < block.numbers.size(); ++i) {
                    const std::size_t k = b * blockColumns + i;
                    block.numbers[i] =
                        row[matrix.columnOrder.empty() ? k : static_cast<std::size_t>(matrix.columnOrder[k])];
                }
                block.scale = matrix.scale(first + r, matrix.groups[b]);
                block.zero = matrix.zero ? matrix.zero(first + r, matrix.groups[b]) : 0;
                store(type, block, target);
            }
        }
    }
    return result;
}

} // namespace engine
