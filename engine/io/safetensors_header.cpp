// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/core/json.h"
#include "engine/core/printable.h"
#include "engine/io/safetensors_parts.h"
#include "engine/io/safetensors_types.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

namespace engine {
namespace {

constexpr std::size_t maxNameBytes = 1024;
constexpr std::size_t maxTensors = std::size_t{1} << 20;
constexpr std::size_t mostShapeDimensions = 16;

/// Builds the tensor list from parser events. The header has a fixed form, so that a depth and the last key are all
/// the state that is needed, and anything deeper is refused where it stands.
class HeaderBuilder : public nlohmann::json_sax<Json> {
public:
    [[nodiscard]] SafetensorsHeader take() { return std::move(m_header); }
    [[nodiscard]] const std::string &fault() const { return m_fault; }

    bool null() override { return wrongKind("null"); }
    bool boolean(bool value) override { return wrongKind(value ? "true" : "false"); }
    bool number_integer(number_integer_t value) override
    {
        if (m_place == Place::List)
            return fail(listText() + " holds " + std::to_string(value)
                        + ", which is negative, wanted an integer of at least 0");
        return wrongKind(std::to_string(value));
    }
    bool number_unsigned(number_unsigned_t value) override
    {
        if (m_place != Place::List)
            return wrongKind(std::to_string(value));
        return addNumber(value);
    }
    bool number_float(number_float_t, const string_t &text) override
    {
        const bool digits = text.find_first_not_of("0123456789") == std::string::npos;
        if (m_place == Place::List && digits)
            return failLarge(text);
        if (m_place == Place::List)
            return fail(listText() + " holds " + inQuotes(text, 40) + ", which must be an integer");
        return wrongKind(printable(text, 40));
    }
    bool string(string_t &value) override;
    bool binary(binary_t &) override { return false; }
    bool start_object(std::size_t) override;
    bool end_object() override;
    bool start_array(std::size_t) override;
    bool end_array() override
    {
        m_place = Place::Tensor;
        return true;
    }
    bool key(string_t &value) override;
    bool parse_error(std::size_t position, const std::string &token, const nlohmann::detail::exception &error) override
    {
        if (error.id == 406) // a number beyond all doubles
            return m_place == Place::List ? failLarge(token) : wrongKind("a number that is too large");
        return fail("the header is not valid JSON at its byte " + std::to_string(position) + ": "
                    + printable(jsonFault(error.what()), 120));
    }

private:
    enum class Place { Before, Top, Metadata, Tensor, List };

    bool fail(std::string text)
    {
        m_fault = std::move(text);
        return false;
    }
    [[nodiscard]] std::string tensorText() const { return "tensor " + inQuotes(m_tensor.name); }
    [[nodiscard]] std::string listText() const { return tensorText() + ": " + listName(); }
    [[nodiscard]] std::string listName() const { return m_isShape ? "a dimension of its shape" : "data_offsets"; }
    bool failLarge(const std::string &digits)
    {
        return fail(listText() + " is " + printable(digits, 40) + ", which is too large, wanted an integer of at most "
                    + std::to_string(std::numeric_limits<std::int64_t>::max()));
    }
    bool wrongKind(const std::string &found);
    bool addNumber(std::uint64_t value);
    bool finishTensor();
    bool topKey(string_t &value);
    bool tensorKey(string_t &value);

    SafetensorsHeader m_header;
    SafetensorsTensor m_tensor;
    std::vector<std::uint64_t> m_offsets;
    bool m_hasType = false;
    bool m_hasShape = false;
    bool m_hasOffsets = false;
    bool m_isShape = false; ///< of the list that is being read
    std::string m_key;
    Place m_place = Place::Before;
    std::unordered_set<std::string> m_names;
    std::string m_fault;
};

bool HeaderBuilder::wrongKind(const std::string &found)
{
    switch (m_place) {
    case Place::Before:
        return fail("the header is " + found + ", wanted an object that begins with {");
    case Place::Top:
        return fail("the entry of tensor " + inQuotes(m_key) + " is " + found + ", wanted an object");
    case Place::Metadata:
        return fail("the __metadata__ value of key " + inQuotes(m_key) + " is " + found + ", which must be a string");
    case Place::Tensor:
        return fail(tensorText() + ": the field " + m_key + " is " + found + ", wanted "
                    + (m_key == "dtype" ? "a string" : "a list of integers"));
    case Place::List:
        break;
    }
    return fail(listText() + " holds " + found + ", which must be an integer");
}

bool HeaderBuilder::string(string_t &value)
{
    if (m_place == Place::Metadata) {
        m_header.metadata.emplace_back(m_key, std::move(value));
        return true;
    }
    if (m_place != Place::Tensor || m_key != "dtype")
        return wrongKind("the string " + inQuotes(value, 40));
    if (findSafetensorsType(value) == nullptr)
        return fail(tensorText() + " has the unknown dtype " + inQuotes(value, 40)
                    + ", wanted a type of the safetensors format");
    m_tensor.type = std::move(value);
    return true;
}

bool HeaderBuilder::start_object(std::size_t)
{
    if (m_place == Place::Before) {
        m_place = Place::Top;
        return true;
    }
    if (m_place != Place::Top)
        return wrongKind("an object");
    if (m_key == "__metadata__") {
        m_place = Place::Metadata;
        return true;
    }
    m_place = Place::Tensor;
    m_tensor = {};
    m_tensor.name = m_key;
    m_offsets.clear();
    m_hasType = m_hasShape = m_hasOffsets = false;
    return true;
}

bool HeaderBuilder::end_object()
{
    if (m_place == Place::Tensor && !finishTensor())
        return false;
    m_place = Place::Top; // after the outermost one nothing but spaces can follow
    return true;
}

bool HeaderBuilder::start_array(std::size_t)
{
    if (m_place != Place::Tensor || m_key == "dtype")
        return wrongKind("a list");
    m_place = Place::List;
    m_isShape = m_key == "shape";
    return true;
}

bool HeaderBuilder::addNumber(std::uint64_t value)
{
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        return failLarge(std::to_string(value));
    if (!m_isShape) {
        m_offsets.push_back(value);
        return m_offsets.size() <= 2
            || fail(listText() + " has three values or more, wanted the two values begin and end");
    }
    m_tensor.shape.push_back(static_cast<std::int64_t>(value));
    return m_tensor.shape.size() <= mostShapeDimensions
        || fail(tensorText() + ": its shape has too many dimensions, wanted at most "
                + std::to_string(mostShapeDimensions));
}

bool HeaderBuilder::finishTensor()
{
    for (const auto &[has, field] :
         {std::pair{m_hasType, "dtype"}, std::pair{m_hasShape, "shape"}, std::pair{m_hasOffsets, "data_offsets"}}) {
        if (!has)
            return fail(tensorText() + ": the field " + field + " is missing");
    }
    if (m_offsets.size() != 2)
        return fail(tensorText() + ": data_offsets has " + std::to_string(m_offsets.size())
                    + " values, wanted the two values begin and end");
    if (m_offsets[0] > m_offsets[1])
        return fail(tensorText() + ": data_offsets begin at " + std::to_string(m_offsets[0])
                    + ", which is after their end " + std::to_string(m_offsets[1]));
    m_tensor.offset = m_offsets[0];
    m_tensor.bytes = m_offsets[1] - m_offsets[0];
    if (m_header.tensors.size() >= maxTensors)
        return fail("the header has too many tensors, wanted at most " + std::to_string(maxTensors));
    m_header.tensors.push_back(std::move(m_tensor));
    return true;
}

bool HeaderBuilder::key(string_t &value)
{
    if (m_place == Place::Top)
        return topKey(value);
    if (m_place == Place::Tensor)
        return tensorKey(value);
    const auto same = [&value](const auto &entry) { return entry.first == value; };
    if (m_header.metadata.size() > maxTensors)
        return fail("__metadata__ has too many keys, wanted at most " + std::to_string(maxTensors));
    if (m_header.metadata.size() < 1000 && std::any_of(m_header.metadata.begin(), m_header.metadata.end(), same))
        return fail("the __metadata__ key " + inQuotes(value) + " is a duplicate, wanted every key once");
    m_key = std::move(value);
    return true;
}

bool HeaderBuilder::topKey(string_t &value)
{
    if (value.size() > maxNameBytes)
        return fail("the tensor name " + inQuotes(value, 60) + " is too long: " + std::to_string(value.size())
                    + " bytes, wanted at most " + std::to_string(maxNameBytes));
    if (!m_names.insert(value).second)
        return fail("the name " + inQuotes(value) + " is a duplicate, wanted every name once");
    m_key = std::move(value);
    return true;
}

bool HeaderBuilder::tensorKey(string_t &value)
{
    bool *seen = value == "dtype" ? &m_hasType
        : value == "shape"        ? &m_hasShape
        : value == "data_offsets" ? &m_hasOffsets
                                  : nullptr;
    if (seen == nullptr)
        return fail(tensorText() + " has the unknown field " + inQuotes(value, 60)
                    + ", wanted dtype, shape and data_offsets only");
    if (*seen)
        return fail(tensorText() + ": the field " + value + " is a duplicate, wanted it once");
    *seen = true;
    m_key = std::move(value);
    return true;
}

} // namespace

SafetensorsHeader parseSafetensorsHeader(std::string_view text, const std::string &file)
{
    HeaderBuilder builder;
    if (Json::sax_parse(text.begin(), text.end(), &builder))
        return builder.take();
    throw Error(ErrorCode::Refused, inQuotes(file) + ": " + builder.fault());
}

} // namespace engine
