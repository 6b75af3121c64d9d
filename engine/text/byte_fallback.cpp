// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/byte_fallback.h"

#include <charconv>
#include <cstdint>

namespace engine::byte_fallback {

std::string spelling(char byte)
{
    constexpr std::string_view digits = "0123456789ABCDEF";
    const auto value = static_cast<std::uint8_t>(byte);
    return {'<', '0', 'x', digits[value >> 4U], digits[value & 15U], '>'};
}

std::optional<char> byteOf(std::string_view spelling)
{
    if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling.back() != '>')
        return std::nullopt;
    std::uint8_t value = 0;
    const auto [end, fault] = std::from_chars(spelling.data() + 3, spelling.data() + 5, value, 16);
    if (fault != std::errc() || end != spelling.data() + 5)
        return std::nullopt;
    return static_cast<char>(value);
}

} // namespace engine::byte_fallback
