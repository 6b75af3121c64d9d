// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/serve/fields.h"

#include "app/serve/api_error.h"

#include <array>
#include <cstdio>
#include <utility>

namespace serve {
namespace {

std::string numberText(double value)
{
    std::array<char, 32> buffer{};
    (void)std::snprintf(buffer.data(), buffer.size(), "%.12g", value);
    return buffer.data();
}

} // namespace

Fields::Fields(const Json &object, std::string where)
    : m_object(object)
    , m_where(std::move(where))
{
}

const Json *Fields::find(const char *key) const
{
    const auto at = m_object.find(key);
    return at == m_object.end() || at->is_null() ? nullptr : &*at;
}

void Fields::wrong(const char *key, const std::string &found, const std::string &wanted) const
{
    const std::string name = m_where + key;
    throw ApiError(400, "'" + name + "': found " + found + ", wanted " + wanted, name);
}

void Fields::wrongType(const char *key, const Json &value, const char *wanted) const
{
    wrong(key, std::string("a value of type ") + value.type_name(), wanted);
}

std::optional<std::string> Fields::text(const char *key) const
{
    const Json *value = find(key);
    if (!value)
        return std::nullopt;
    if (!value->is_string())
        wrongType(key, *value, "a string");
    return value->get<std::string>();
}

std::optional<bool> Fields::boolean(const char *key) const
{
    const Json *value = find(key);
    if (!value)
        return std::nullopt;
    if (!value->is_boolean())
        wrongType(key, *value, "true or false");
    return value->get<bool>();
}

std::optional<std::int64_t> Fields::integer(const char *key, std::int64_t min, std::int64_t max) const
{
    const Json *value = find(key);
    if (!value)
        return std::nullopt;
    const std::string wanted = "a whole number from " + std::to_string(min) + " to " + std::to_string(max);
    if (!value->is_number())
        wrongType(key, *value, wanted.c_str());
    if (!value->is_number_integer())
        wrong(key, numberText(value->get<double>()), wanted);
    if (value->is_number_unsigned() && value->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
        wrong(key, std::to_string(value->get<std::uint64_t>()), wanted);
    const auto number = value->get<std::int64_t>();
    if (number < min || number > max)
        wrong(key, std::to_string(number), wanted);
    return number;
}

std::optional<double> Fields::number(const char *key, double min, double max) const
{
    const Json *value = find(key);
    if (!value)
        return std::nullopt;
    const std::string wanted = numberText(min) + " to " + numberText(max);
    if (!value->is_number())
        wrongType(key, *value, wanted.c_str());
    const auto number = value->get<double>();
    if (!(number >= min && number <= max))
        wrong(key, numberText(number), wanted);
    return number;
}

const Json *Fields::object(const char *key) const
{
    const Json *value = find(key);
    if (value && !value->is_object())
        wrongType(key, *value, "an object");
    return value;
}

const Json *Fields::list(const char *key) const
{
    const Json *value = find(key);
    if (value && !value->is_array())
        wrongType(key, *value, "a list");
    return value;
}

void Fields::refuse(const char *key, const char *why) const
{
    const Json *value = find(key);
    if (!value || *value == Json(false) || ((value->is_structured() || value->is_string()) && value->empty()))
        return;
    throw ApiError(400, "'" + m_where + key + "' is not supported: " + why, m_where + key);
}

} // namespace serve
