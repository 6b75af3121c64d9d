// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/core/printable.h"
#include "engine/io/byte_writer.h"
#include "engine/io/gguf_types.h"
#include "engine/io/gguf_writer.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>

namespace engine {

namespace {

using T = GgufValueType;

std::optional<T> typeNamed(std::string_view name)
{
    for (std::uint32_t id = 0; !ggufValueTypeName(id).empty(); ++id) {
        if (ggufValueTypeName(id) == name)
            return static_cast<T>(id);
    }
    return std::nullopt;
}

/// One pair while it is encoded.
class PairWriter {
public:
    PairWriter(const std::string &key, Bytes &bytes)
        : m_key(key)
        , m_bytes(bytes)
    {
    }

    void text(const std::string &value) { putText(m_bytes, value); }

    template<typename Value> void number(T type, Value value)
    {
        switch (type) {
        case T::U8:
            return fitting<std::uint8_t>(value);
        case T::I8:
            return fitting<std::int8_t>(value);
        case T::U16:
            return fitting<std::uint16_t>(value);
        case T::I16:
            return fitting<std::int16_t>(value);
        case T::U32:
            return fitting<std::uint32_t>(value);
        case T::I32:
            return fitting<std::int32_t>(value);
        case T::U64:
            return fitting<std::uint64_t>(value);
        case T::I64:
            return fitting<std::int64_t>(value);
        case T::F32:
            return put(m_bytes, static_cast<float>(value));
        case T::F64:
            return put(m_bytes, static_cast<double>(value));
        case T::Bool:
            return put(m_bytes, static_cast<std::uint8_t>(value != Value{}));
        case T::String:
        case T::Array:
            break;
        }
        fail(std::to_string(value));
    }

private:
    template<typename Number, typename Value> void fitting(Value value)
    {
        const auto stored = static_cast<Number>(value);
        if (static_cast<Value>(stored) != value || (stored < Number{}) != (value < Value{}))
            fail(std::to_string(value));
        put(m_bytes, stored);
    }

    [[noreturn]] void fail(const std::string &value) const
    {
        throw Error(ErrorCode::Refused,
                    "metadata key " + inQuotes(m_key) + ": the value " + value + " does not fit its declared type");
    }

    const std::string &m_key;
    Bytes &m_bytes;
};

/// The narrowest usual type of an integer without a declared one.
T typeOf(std::int64_t value)
{
    if (value >= 0)
        return value <= std::numeric_limits<std::uint32_t>::max() ? T::U32 : T::U64;
    return value >= std::numeric_limits<std::int32_t>::min() ? T::I32 : T::I64;
}

T typeOf(std::uint64_t value)
{
    return value <= std::numeric_limits<std::uint32_t>::max() ? T::U32 : T::U64;
}

T typeOf(double)
{
    return T::F32;
}

T typeOf(bool)
{
    return T::Bool;
}

/// Arrays of integers are int32 in llama.cpp's files (token types, ids).
template<typename Number> T typeOf(const std::vector<Number> &values)
{
    if constexpr (std::is_same_v<Number, double> || std::is_same_v<Number, bool>) {
        return typeOf(Number{});
    } else {
        const bool fit =
            std::all_of(values.begin(), values.end(), [](Number value) { return std::in_range<std::int32_t>(value); });
        return fit ? T::I32 : std::is_signed_v<Number> ? T::I64 : T::U64;
    }
}

/// The declared type, of the elements for an array; absent without a declaration.
std::optional<T> declaredType(std::string_view name)
{
    constexpr std::string_view arrayOf = "array of ";
    return typeNamed(name.starts_with(arrayOf) ? name.substr(arrayOf.size()) : name);
}

class ValueEncoder {
public:
    ValueEncoder(const std::string &key, std::string_view declared, Bytes &bytes)
        : m_declared(declaredType(declared))
        , m_bytes(bytes)
        , m_writer(key, bytes)
    {
    }

    void operator()(const std::string &text)
    {
        putType(T::String);
        m_writer.text(text);
    }

    void operator()(const std::vector<std::string> &texts)
    {
        putArrayHead(T::String, texts.size());
        for (const std::string &text : texts)
            m_writer.text(text);
    }

    template<typename Number> void operator()(const std::vector<Number> &values)
    {
        const T type = m_declared.value_or(typeOf(values));
        putArrayHead(type, values.size());
        for (const Number value : values)
            m_writer.number(type, value);
    }

    template<typename Number> void operator()(Number value)
    {
        const T type = m_declared.value_or(typeOf(value));
        putType(type);
        m_writer.number(type, value);
    }

private:
    void putType(T type) { put(m_bytes, static_cast<std::uint32_t>(type)); }

    void putArrayHead(T type, std::size_t count)
    {
        putType(T::Array);
        putType(type);
        put(m_bytes, std::uint64_t{count});
    }

    std::optional<T> m_declared;
    Bytes &m_bytes;
    PairWriter m_writer;
};

} // namespace

std::string usualGgufType(const MetadataValue &value)
{
    const auto nameOf = [](T type) { return std::string(ggufValueTypeName(static_cast<std::uint32_t>(type))); };
    return std::visit(
        [&](const auto &content) -> std::string {
            using Content = std::decay_t<decltype(content)>;
            if constexpr (std::is_same_v<Content, std::string>)
                return nameOf(T::String);
            else if constexpr (std::is_same_v<Content, std::vector<std::string>>)
                return "array of " + nameOf(T::String);
            else if constexpr (std::is_arithmetic_v<Content>)
                return nameOf(typeOf(content));
            else
                return "array of " + nameOf(typeOf(content));
        },
        value);
}

std::vector<std::byte> encodeGgufPair(const Metadata &metadata, std::size_t index)
{
    const auto &[key, value] = metadata.entries().at(index);
    Bytes bytes;
    putText(bytes, key);
    std::visit(ValueEncoder(key, metadata.typeName(key), bytes), value);
    return bytes;
}

} // namespace engine
