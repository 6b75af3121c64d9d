// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/group_blocks.h"

#include "kernels/error.h"

namespace kernels {

namespace {

constexpr std::size_t scaleBytes = sizeof(float);

void readCrumbs(const std::uint8_t *bytes, GroupBlock &block)
{
    for (std::size_t i = 0; i < 32; ++i)
        block.numbers[i] = (bytes[i % 8] >> (2 * (i / 8))) & 3;
}

void writeCrumbs(const GroupBlock &block, std::uint8_t *bytes)
{
    std::memset(bytes, 0, 8);
    for (std::size_t i = 0; i < 32; ++i)
        bytes[i % 8] |= static_cast<std::uint8_t>((block.numbers[i] & 3) << (2 * (i / 8)));
}

void readThirdBits(const std::uint8_t *bytes, GroupBlock &block)
{
    for (std::size_t i = 0; i < 32; ++i)
        block.numbers[i] |= static_cast<std::uint8_t>(((bytes[i / 8] >> (i % 8)) & 1) << 2);
}

void writeThirdBits(const GroupBlock &block, std::uint8_t *bytes)
{
    std::memset(bytes, 0, 4);
    for (std::size_t i = 0; i < 32; ++i)
        bytes[i / 8] |= static_cast<std::uint8_t>(((block.numbers[i] >> 2) & 1) << (i % 8));
}

} // namespace

GroupBlock readGroupBlock(DType type, const std::uint8_t *bytes)
{
    CHECK(isGroupType(type));
    GroupBlock block;
    std::memcpy(&block.scale, bytes, scaleBytes);
    const std::uint8_t *numbers = bytes + scaleBytes;
    if (type == DType::INT8 || type == DType::W8A8) {
        block.isSigned = true;
        std::memcpy(block.numbers.data(), numbers, 32);
        return block;
    }
    block.zero = *numbers++;
    if (type == DType::INT4) {
        for (std::size_t j = 0; j < 16; ++j) {
            block.numbers[j] = numbers[j] & 15;
            block.numbers[j + 16] = numbers[j] >> 4;
        }
        return block;
    }
    readCrumbs(numbers, block);
    if (type == DType::INT3)
        readThirdBits(numbers + 8, block);
    return block;
}

void writeGroupBlock(DType type, const GroupBlock &block, std::uint8_t *bytes)
{
    CHECK(isGroupType(type));
    std::memcpy(bytes, &block.scale, scaleBytes);
    std::uint8_t *numbers = bytes + scaleBytes;
    if (type == DType::INT8 || type == DType::W8A8) {
        std::memcpy(numbers, block.numbers.data(), 32);
        return;
    }
    *numbers++ = block.zero;
    if (type == DType::INT4) {
        for (std::size_t j = 0; j < 16; ++j)
            numbers[j] = static_cast<std::uint8_t>((block.numbers[j] & 15) | block.numbers[j + 16] << 4);
        return;
    }
    writeCrumbs(block, numbers);
    if (type == DType::INT3)
        writeThirdBits(block, numbers + 8);
}

} // namespace kernels
