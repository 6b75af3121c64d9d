// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/dtype.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace kernels {

/// 32 weights of INT2, INT3, INT4 or INT8: weight i is scale x (stored number i - zero), rounded once. INT8 has no
/// zero, its numbers are signed. W8A8 is INT8 here.
///
/// In memory: float32 scale, then for INT2..4 a byte of zero (0..16); then numbers. INT4: byte j has number j below and
/// j + 16 above. INT2: bits 2 (i / 8) of byte i % 8. INT3: the low two bits as INT2, then a byte of third bits for
/// every 8 numbers. INT8: bytes.
struct GroupBlock {
    std::array<std::uint8_t, 32> numbers{};
    float scale = 0.0F;
    std::uint8_t zero = 0;
    bool isSigned = false; ///< numbers are int8

    [[nodiscard]] int numberOf(std::size_t i) const
    {
        return isSigned ? static_cast<std::int8_t>(numbers[i]) : int{numbers[i]} - zero;
    }
};

[[nodiscard]] constexpr bool isGroupType(DType type)
{
    return type == DType::INT2 || type == DType::INT3 || type == DType::INT4 || type == DType::INT8
        || type == DType::W8A8;
}

/// \pre isGroupType(type); bytes has info(type).blockBytes
[[nodiscard]] GroupBlock readGroupBlock(DType type, const std::uint8_t *bytes);
/// The inverse of readGroupBlock; numbers must fit the type.
void writeGroupBlock(DType type, const GroupBlock &block, std::uint8_t *bytes);

} // namespace kernels
