// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_from_json.h"

#include "engine/core/json_exact.h"
#include "engine/text/jinja_arithmetic.h"

namespace engine::jinja {
namespace {

Value number(Heap &heap, const Json &json)
{
    if (json.is_number_unsigned()) {
        const auto value = json.get<std::uint64_t>();
        if (value <= static_cast<std::uint64_t>(INT64_MAX))
            return Value::integer(static_cast<std::int64_t>(value));
        return heap.integer(BigInt::fromDigits(std::to_string(value), 10));
    }
    if (json.is_number_integer())
        return Value::integer(json.get<std::int64_t>());
    return Value::real(json.get<double>());
}

Value largeInteger(Heap &heap, const std::string &text)
{
    const bool negative = text.front() == '-';
    heap.budget().steps(text.size() * text.size() / 16);
    BigInt value = BigInt::fromDigits(text.substr(negative ? 1 : 0), 10);
    return heap.integer(negative ? -value : value);
}

} // namespace

Value fromJson(Heap &heap, const Json &json)
{
    const Budget::Level level(heap.budget());
    heap.budget().steps(4);
    switch (json.type()) {
    case Json::value_t::boolean:
        return Value::boolean(json.get<bool>());
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
    case Json::value_t::number_float:
        return number(heap, json);
    case Json::value_t::binary:
        return largeInteger(heap, *bigInteger(json));
    case Json::value_t::string:
        return heap.string(json.get_ref<const std::string &>());
    case Json::value_t::array: {
        std::vector<Value> items;
        items.reserve(json.size());
        for (const Json &item : json)
            items.push_back(fromJson(heap, item));
        return heap.list(std::move(items));
    }
    case Json::value_t::object: {
        const Ref<DictObject> out = heap.make<DictObject>(0);
        for (const auto &[key, value] : json.items())
            out->insert(heap.string(key), fromJson(heap, value));
        return Value(out.get());
    }
    default:
        return Value::none();
    }
}

} // namespace engine::jinja
