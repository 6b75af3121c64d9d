// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/shard_name.h"

#include <array>
#include <charconv>
#include <cstdio>

namespace engine {

namespace {

std::optional<int> fiveDigits(std::string_view text)
{
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0)
        return std::nullopt;
    return value;
}

} // namespace

std::string ShardName::path(int otherNumber) const
{
    std::array<char, 48> numbers{};
    std::snprintf(numbers.data(), numbers.size(), "-%05d-of-%05d", otherNumber, count);
    return prefix + numbers.data() + extension;
}

std::optional<ShardName> parseShardName(std::string_view path, std::string_view extension)
{
    constexpr std::string_view form = "-00001-of-00003";
    if (!path.ends_with(extension) || path.size() < form.size() + extension.size())
        return std::nullopt;
    const std::string_view stem = path.substr(0, path.size() - extension.size());
    const std::string_view tail = stem.substr(stem.size() - form.size());
    if (tail[0] != '-' || tail.substr(6, 4) != "-of-")
        return std::nullopt;
    const auto number = fiveDigits(tail.substr(1, 5));
    const auto count = fiveDigits(tail.substr(10, 5));
    if (!number || !count)
        return std::nullopt;
    return ShardName{std::string(stem.substr(0, stem.size() - form.size())), *number, *count, std::string(extension)};
}

} // namespace engine
