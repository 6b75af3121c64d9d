// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/core/printable.h"
#include "engine/io/checkpoint.h"

#include <array>
#include <cstddef>
#include <limits>

namespace engine {

namespace {

constexpr std::array<std::string_view, 10> kindNames = {
    "bool",          "int64",          "uint64",          "float64",          "string",
    "array of bool", "array of int64", "array of uint64", "array of float64", "array of string"};
static_assert(kindNames.size() == std::variant_size_v<MetadataValue>);

bool fitsInt64(std::uint64_t value)
{
    return value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
}

} // namespace

void Metadata::add(std::string key, MetadataValue value, std::string typeName)
{
    m_typeNames.push_back(typeName.empty() ? std::string(kindNames[value.index()]) : std::move(typeName));
    m_entries.emplace_back(std::move(key), std::move(value));
}

void Metadata::set(std::string key, MetadataValue value)
{
    for (std::size_t i = 0; i < m_entries.size(); ++i) {
        if (m_entries[i].first == key) {
            m_typeNames[i] = kindNames[value.index()];
            m_entries[i].second = std::move(value);
            return;
        }
    }
    add(std::move(key), std::move(value));
}

const MetadataValue *Metadata::find(std::string_view key) const
{
    for (const auto &[name, value] : m_entries) {
        if (name == key)
            return &value;
    }
    return nullptr;
}

std::string_view Metadata::typeName(std::string_view key) const
{
    for (std::size_t i = 0; i < m_entries.size(); ++i) {
        if (m_entries[i].first == key)
            return m_typeNames[i];
    }
    return {};
}

void Metadata::failType(std::string_view key, std::string_view wanted) const
{
    const std::string file = m_source.empty() ? std::string() : inQuotes(m_source) + ": ";
    throw Error(ErrorCode::Refused,
                file + "key " + inQuotes(key) + " has the type " + std::string(typeName(key)) + ", wanted "
                    + std::string(wanted));
}

std::optional<std::int64_t> Metadata::integer(std::string_view key) const
{
    const MetadataValue *value = find(key);
    if (value == nullptr)
        return std::nullopt;
    if (const auto *number = std::get_if<std::int64_t>(value))
        return *number;
    const auto *number = std::get_if<std::uint64_t>(value);
    if (number == nullptr)
        failType(key, "an integer");
    if (!fitsInt64(*number))
        failType(key, "an integer of at most 9223372036854775807 (found " + std::to_string(*number) + ")");
    return static_cast<std::int64_t>(*number);
}

std::optional<double> Metadata::number(std::string_view key) const
{
    const MetadataValue *value = find(key);
    if (value == nullptr)
        return std::nullopt;
    if (const auto *number = std::get_if<double>(value))
        return *number;
    if (const auto *number = std::get_if<std::int64_t>(value))
        return static_cast<double>(*number);
    if (const auto *number = std::get_if<std::uint64_t>(value))
        return static_cast<double>(*number);
    failType(key, "a number");
}

std::optional<bool> Metadata::boolean(std::string_view key) const
{
    const MetadataValue *value = find(key);
    if (value == nullptr)
        return std::nullopt;
    if (const auto *flag = std::get_if<bool>(value))
        return *flag;
    failType(key, "a bool");
}

const std::string *Metadata::text(std::string_view key) const
{
    const MetadataValue *value = find(key);
    if (value == nullptr)
        return nullptr;
    const auto *text = std::get_if<std::string>(value);
    if (text == nullptr)
        failType(key, "a string");
    return text;
}

const std::vector<std::string> *Metadata::texts(std::string_view key) const
{
    const MetadataValue *value = find(key);
    if (value == nullptr)
        return nullptr;
    const auto *texts = std::get_if<std::vector<std::string>>(value);
    if (texts == nullptr)
        failType(key, "an array of strings");
    return texts;
}

std::optional<std::vector<std::int64_t>> Metadata::integers(std::string_view key) const
{
    const MetadataValue *value = find(key);
    if (value == nullptr)
        return std::nullopt;
    if (const auto *numbers = std::get_if<std::vector<std::int64_t>>(value))
        return *numbers;
    const auto *numbers = std::get_if<std::vector<std::uint64_t>>(value);
    if (numbers == nullptr)
        failType(key, "an array of integers");
    std::vector<std::int64_t> result;
    result.reserve(numbers->size());
    for (const std::uint64_t number : *numbers) {
        if (!fitsInt64(number))
            failType(key, "integers of at most 9223372036854775807 (found " + std::to_string(number) + ")");
        result.push_back(static_cast<std::int64_t>(number));
    }
    return result;
}

std::optional<std::vector<double>> Metadata::numbers(std::string_view key) const
{
    const MetadataValue *value = find(key);
    if (value == nullptr)
        return std::nullopt;
    if (const auto *numbers = std::get_if<std::vector<double>>(value))
        return *numbers;
    if (const auto *numbers = std::get_if<std::vector<std::int64_t>>(value))
        return std::vector<double>(numbers->begin(), numbers->end());
    if (const auto *numbers = std::get_if<std::vector<std::uint64_t>>(value))
        return std::vector<double>(numbers->begin(), numbers->end());
    failType(key, "an array of numbers");
}

} // namespace engine
