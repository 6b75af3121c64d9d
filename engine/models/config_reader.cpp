// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"

#include <cmath>
#include <cstdio>

namespace engine {
namespace {

std::string shortNumber(double value)
{
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%.9g", value);
    return buffer;
}

bool usable(double value)
{
    return std::isfinite(value) && std::isfinite(static_cast<float>(value));
}

} // namespace

std::string ConfigReader::full(std::string_view key) const
{
    return m_prefix + "." + std::string(key);
}

void ConfigReader::refuse(std::string_view key, const std::string &found, const std::string &wanted) const
{
    throw Error(ErrorCode::Refused, "key " + full(key) + " is " + found + "; wanted " + wanted);
}

bool ConfigReader::has(std::string_view key) const
{
    return m_metadata.find(full(key)) != nullptr;
}

void ConfigReader::checkRange(std::string_view key, std::int64_t value, std::int64_t least, std::int64_t most) const
{
    if (value < least || value > most)
        refuse(key, std::to_string(value),
               "a number of at least " + std::to_string(least) + " and at most " + std::to_string(most));
}

std::int64_t ConfigReader::count(std::string_view key, std::int64_t most, std::optional<std::int64_t> fallback) const
{
    const std::optional<std::int64_t> value = m_metadata.integer(full(key));
    if (!value && !fallback)
        throw Error(ErrorCode::Refused, "key " + full(key) + " is missing");
    const std::int64_t result = value ? *value : *fallback;
    checkRange(key, result, 1, most);
    return result;
}

std::int64_t ConfigReader::countOrZero(std::string_view key, std::int64_t most) const
{
    const std::int64_t value = m_metadata.integer(full(key)).value_or(0);
    checkRange(key, value, 0, most);
    return value;
}

bool ConfigReader::isArray(std::string_view key) const
{
    const MetadataValue *value = m_metadata.find(full(key));
    return value
        && (std::holds_alternative<std::vector<std::int64_t>>(*value)
            || std::holds_alternative<std::vector<std::uint64_t>>(*value)
            || std::holds_alternative<std::vector<bool>>(*value));
}

std::vector<int> ConfigReader::countPerLayer(std::string_view key, int layers, std::int64_t most) const
{
    if (!isArray(key))
        return std::vector<int>(static_cast<std::size_t>(layers), static_cast<int>(count(key, most)));
    const std::vector<std::int64_t> values = m_metadata.integers(full(key)).value();
    if (values.size() != static_cast<std::size_t>(layers))
        refuse(key, "an array of " + std::to_string(values.size()),
               "one number or an array of " + std::to_string(layers) + ", one per layer");
    std::vector<int> counts;
    counts.reserve(values.size());
    for (const std::int64_t each : values) {
        checkRange(key, each, 1, most);
        counts.push_back(static_cast<int>(each));
    }
    return counts;
}

double ConfigReader::positive(std::string_view key, std::optional<double> fallback) const
{
    const std::optional<double> value = m_metadata.number(full(key));
    if (!value && !fallback)
        throw Error(ErrorCode::Refused, "key " + full(key) + " is missing");
    const double result = value ? *value : *fallback;
    if (!usable(result) || static_cast<float>(result) <= 0.0F)
        refuse(key, shortNumber(result), "a finite, positive number");
    return result;
}

double ConfigReader::zeroOrPositive(std::string_view key, double fallback) const
{
    const double result = number(key, fallback);
    if (result < 0.0)
        refuse(key, shortNumber(result), "a finite number of at least 0");
    return result;
}

double ConfigReader::number(std::string_view key, double fallback) const
{
    const double result = m_metadata.number(full(key)).value_or(fallback);
    if (!usable(result))
        refuse(key, shortNumber(result), "a finite number");
    return result;
}

bool ConfigReader::flag(std::string_view key, bool fallback) const
{
    return m_metadata.boolean(full(key)).value_or(fallback);
}

std::vector<std::int64_t> ConfigReader::numbers(std::string_view key) const
{
    return m_metadata.integers(full(key)).value_or(std::vector<std::int64_t>{});
}

std::vector<double> ConfigReader::positives(std::string_view key) const
{
    if (!has(key))
        return {};
    std::vector<double> values = m_metadata.numbers(full(key)).value();
    for (const double value : values) {
        if (!usable(value) || static_cast<float>(value) <= 0.0F)
            refuse(key, "an array with " + shortNumber(value) + " in it", "finite, positive numbers");
    }
    return values;
}

std::optional<std::vector<bool>> ConfigReader::flagPerLayer(std::string_view key, int layers) const
{
    const MetadataValue *value = m_metadata.find(full(key));
    if (!value)
        return std::nullopt;
    std::vector<bool> flags;
    if (const auto *direct = std::get_if<std::vector<bool>>(value)) {
        flags = *direct;
    } else {
        const auto numbers = m_metadata.integers(full(key)); // refuses what is no array of numbers
        for (const std::int64_t each : numbers.value())
            flags.push_back(each != 0);
    }
    if (flags.size() != static_cast<std::size_t>(layers))
        refuse(key, "an array of " + std::to_string(flags.size()),
               "an array of " + std::to_string(layers) + ", one per layer");
    return flags;
}

std::string ConfigReader::text(std::string_view key, std::string_view fallback) const
{
    const std::string *value = m_metadata.text(full(key));
    return value ? *value : std::string(fallback);
}

} // namespace engine
