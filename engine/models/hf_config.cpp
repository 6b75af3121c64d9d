// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/hf_config.h"

#include "engine/core/file_bytes.h"
#include "engine/core/json.h"
#include "engine/core/printable.h"

#include <cmath>
#include <limits>

namespace engine {
namespace {

constexpr std::size_t maxFileBytes = 16U << 20U; // published ones have some kilobytes

std::string shortDump(const Json &value)
{
    return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace), 60);
}

} // namespace

HfConfig::HfConfig(std::string_view text, std::string path)
    : m_path(std::move(path))
{
    if (text.empty())
        throw Error(ErrorCode::Refused, m_path + ": the file is empty, wanted a JSON object");
    m_root = std::make_shared<const Json>(parseJson(text, m_path));
    m_node = m_root.get();
    if (!m_node->is_object())
        throw Error(ErrorCode::Refused, m_path + ": holds the JSON type " + m_node->type_name() + ", wanted an object");
}

HfConfig HfConfig::read(const std::string &path)
{
    return {readFileBytes(path, maxFileBytes), path};
}

const Json *HfConfig::find(std::string_view key) const
{
    const auto found = m_node->find(std::string(key));
    return found == m_node->end() || found->is_null() ? nullptr : &*found;
}

bool HfConfig::has(std::string_view key) const
{
    return find(key) != nullptr;
}

void HfConfig::refuse(std::string_view key, const std::string &found, const std::string &wanted) const
{
    throw Error(ErrorCode::Refused,
                m_path + ": key " + inQuotes(m_prefix + std::string(key)) + " is " + found + ", wanted " + wanted);
}

void HfConfig::refuseValue(std::string_view key, const std::string &wanted) const
{
    const Json *value = find(key);
    refuse(key, value != nullptr ? shortDump(*value) : "missing", wanted);
}

std::optional<std::int64_t> HfConfig::integer(std::string_view key) const
{
    const Json *value = find(key);
    if (value == nullptr)
        return std::nullopt;
    const bool tooLarge = value->is_number_unsigned()
        && value->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (!value->is_number_integer() || tooLarge)
        refuseValue(key, tooLarge ? "a smaller integer: this one is too large" : "an integer: it must be one");
    return value->get<std::int64_t>();
}

std::optional<double> HfConfig::number(std::string_view key) const
{
    const Json *value = find(key);
    if (value == nullptr)
        return std::nullopt;
    if (!value->is_number() || !std::isfinite(value->get<double>()))
        refuseValue(key, "a finite number");
    return value->get<double>();
}

std::optional<bool> HfConfig::boolean(std::string_view key) const
{
    const Json *value = find(key);
    if (value == nullptr)
        return std::nullopt;
    if (!value->is_boolean())
        refuseValue(key, "true or false");
    return value->get<bool>();
}

std::optional<std::string> HfConfig::text(std::string_view key) const
{
    const Json *value = find(key);
    if (value == nullptr)
        return std::nullopt;
    if (!value->is_string())
        refuseValue(key, "a string");
    return value->get<std::string>();
}

std::optional<std::vector<std::int64_t>> HfConfig::integers(std::string_view key) const
{
    const Json *value = find(key);
    if (value == nullptr)
        return std::nullopt;
    if (value->is_number())
        return std::vector<std::int64_t>{*integer(key)};
    std::vector<std::int64_t> result;
    for (const Json &each : *value) {
        if (!value->is_array() || !each.is_number_integer())
            refuseValue(key, "an integer or a list of integers");
        result.push_back(each.get<std::int64_t>());
    }
    if (!value->is_array())
        refuseValue(key, "an integer or a list of integers");
    return result;
}

std::optional<std::vector<double>> HfConfig::numbers(std::string_view key) const
{
    const Json *value = find(key);
    if (value == nullptr)
        return std::nullopt;
    std::vector<double> result;
    for (const Json &each : *value) {
        if (!each.is_number() || !std::isfinite(each.get<double>()))
            refuseValue(key, "a list of finite numbers");
        result.push_back(each.get<double>());
    }
    if (!value->is_array())
        refuseValue(key, "a list of finite numbers");
    return result;
}

std::optional<std::vector<std::string>> HfConfig::texts(std::string_view key) const
{
    const Json *value = find(key);
    if (value == nullptr)
        return std::nullopt;
    std::vector<std::string> result;
    for (const Json &each : *value) {
        if (!each.is_string())
            refuseValue(key, "a list of strings");
        result.push_back(each.get<std::string>());
    }
    if (!value->is_array())
        refuseValue(key, "a list of strings");
    return result;
}

std::optional<std::vector<bool>> HfConfig::booleans(std::string_view key) const
{
    const Json *value = find(key);
    if (value == nullptr)
        return std::nullopt;
    std::vector<bool> result;
    for (const Json &each : *value) {
        const bool isBit = each.is_number_integer() && (each == 0 || each == 1);
        if (!each.is_boolean() && !isBit)
            refuseValue(key, "a list of true or false, or of 1 and 0");
        result.push_back(each.is_boolean() ? each.get<bool>() : each == 1);
    }
    if (!value->is_array())
        refuseValue(key, "a list of true or false, or of 1 and 0");
    return result;
}

std::optional<HfConfig> HfConfig::object(std::string_view key) const
{
    const Json *value = find(key);
    if (value == nullptr)
        return std::nullopt;
    if (!value->is_object())
        refuseValue(key, "an object");
    HfConfig inner(*this);
    inner.m_prefix += std::string(key) + ".";
    inner.m_node = value;
    return inner;
}

std::vector<std::string> HfConfig::keys() const
{
    std::vector<std::string> all;
    for (const auto &[key, value] : m_node->items())
        all.push_back(key);
    return all;
}

std::int64_t HfConfig::count(std::string_view key, std::int64_t most, std::optional<std::int64_t> fallback,
                             std::int64_t least) const
{
    const std::optional<std::int64_t> value = integer(key);
    if (!value && !fallback)
        refuse(key, "missing", "an integer of at least " + std::to_string(least));
    const std::int64_t result = value ? *value : *fallback;
    if (result < least || result > most)
        refuse(key, std::to_string(result),
               (result < least ? "an integer of at least " + std::to_string(least)
                               : "at most " + std::to_string(most) + ": it is too large"));
    return result;
}

HfConfig HfConfig::withDefaults(std::string_view jsonText) const
{
    if (jsonText.empty())
        return *this;
    Json merged = *m_node;
    const Json defaults = parseJson(jsonText, "defaults");
    for (const auto &[key, value] : defaults.items()) {
        if (!merged.contains(key))
            merged[key] = value;
    }
    HfConfig result(*this);
    result.m_root = std::make_shared<const Json>(std::move(merged));
    result.m_node = result.m_root.get();
    return result;
}

HfConfig HfConfig::textModel() const
{
    const auto inner = m_node->find("text_config");
    if (inner == m_node->end() || !inner->is_object())
        return *this;
    Json merged = *m_node;
    merged.erase("text_config");
    for (const auto &[key, value] : inner->items()) {
        if (!value.is_null() || !merged.contains(key))
            merged[key] = value;
    }
    HfConfig result(*this);
    result.m_root = std::make_shared<const Json>(std::move(merged));
    result.m_node = result.m_root.get();
    return result;
}

} // namespace engine
