// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/core/printable.h"
#include "engine/io/gguf_parts.h"
#include "engine/io/gguf_types.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

namespace engine {

namespace {

constexpr std::size_t maxKeyBytes = 65535; // GGUF specification
constexpr int maxArrayDepth = 4;

template<typename Stored, typename Kept> std::vector<Kept> convertAll(const std::byte *source, std::uint64_t count)
{
    std::vector<Kept> result(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < result.size(); ++i) {
        Stored value;
        std::memcpy(&value, source + i * sizeof(Stored), sizeof(Stored));
        result[i] = static_cast<Kept>(value);
    }
    return result;
}

std::vector<bool> convertBools(const std::byte *source, std::uint64_t count)
{
    std::vector<bool> result(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < result.size(); ++i)
        result[i] = source[i] != std::byte{0};
    return result;
}

/// Values of a fixed-size type at `source`, as an array.
MetadataValue convertArray(GgufValueType type, const std::byte *source, std::uint64_t count)
{
    switch (type) {
    case GgufValueType::U8:
        return convertAll<std::uint8_t, std::uint64_t>(source, count);
    case GgufValueType::I8:
        return convertAll<std::int8_t, std::int64_t>(source, count);
    case GgufValueType::U16:
        return convertAll<std::uint16_t, std::uint64_t>(source, count);
    case GgufValueType::I16:
        return convertAll<std::int16_t, std::int64_t>(source, count);
    case GgufValueType::U32:
        return convertAll<std::uint32_t, std::uint64_t>(source, count);
    case GgufValueType::I32:
        return convertAll<std::int32_t, std::int64_t>(source, count);
    case GgufValueType::U64:
        return convertAll<std::uint64_t, std::uint64_t>(source, count);
    case GgufValueType::I64:
        return convertAll<std::int64_t, std::int64_t>(source, count);
    case GgufValueType::F32:
        return convertAll<float, double>(source, count);
    case GgufValueType::F64:
        return convertAll<double, double>(source, count);
    case GgufValueType::Bool:
        return convertBools(source, count);
    case GgufValueType::String:
    case GgufValueType::Array:
        break;
    }
    throw Error(ErrorCode::Internal, "a metadata array of this type has no fixed element size");
}

/// Reads one file's key/value pairs.
class MetadataReader {
public:
    MetadataReader(ByteReader &reader, ArrayContents arrays, HeaderBudget &budget, GgufHeader &header)
        : m_reader(reader)
        , m_arrays(arrays)
        , m_budget(budget)
        , m_header(header)
    {
    }

    void readPair()
    {
        const std::string_view key = readKey();
        const Place place{"value of key", key};
        m_budget.charge(1, sizeof(MetadataValue) + 2 * sizeof(std::string) + key.size(), m_reader, place);
        const std::size_t typePosition = m_reader.position();
        const auto id = m_reader.read<std::uint32_t>(place);
        if (ggufValueTypeName(id).empty())
            m_reader.failAt(typePosition,
                            "key " + inQuotes(key) + " has the unknown value type " + std::to_string(id)
                                + ", wanted 0 to 12");
        const auto type = static_cast<GgufValueType>(id);
        if (type == GgufValueType::Array)
            readArray(key);
        else
            m_header.metadata.add(std::string(key), readScalar(type, place), std::string(ggufValueTypeName(id)));
    }

private:
    std::string_view readKey()
    {
        const std::size_t start = m_reader.position();
        const std::string_view key = m_reader.readString({"metadata key", {}});
        if (key.empty())
            m_reader.failAt(start, "a metadata key is empty, wanted a name");
        if (key.size() > maxKeyBytes) {
            m_reader.failAt(start,
                            "the metadata key " + inQuotes(key, 60)
                                + " is longer than 65535 bytes: " + std::to_string(key.size()));
        }
        const bool isText = std::all_of(key.begin(), key.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
        if (!isText)
            m_reader.failAt(start,
                            "the metadata key " + inQuotes(key) + " has characters that are not printable ASCII");
        if (!m_keys.insert(key).second)
            m_reader.failAt(start, "the metadata key " + inQuotes(key) + " is a duplicate, wanted every key once");
        return key;
    }

    MetadataValue readScalar(GgufValueType type, const Place &place)
    {
        switch (type) {
        case GgufValueType::U8:
            return std::uint64_t{m_reader.read<std::uint8_t>(place)};
        case GgufValueType::I8:
            return std::int64_t{m_reader.read<std::int8_t>(place)};
        case GgufValueType::U16:
            return std::uint64_t{m_reader.read<std::uint16_t>(place)};
        case GgufValueType::I16:
            return std::int64_t{m_reader.read<std::int16_t>(place)};
        case GgufValueType::U32:
            return std::uint64_t{m_reader.read<std::uint32_t>(place)};
        case GgufValueType::I32:
            return std::int64_t{m_reader.read<std::int32_t>(place)};
        case GgufValueType::U64:
            return m_reader.read<std::uint64_t>(place);
        case GgufValueType::I64:
            return m_reader.read<std::int64_t>(place);
        case GgufValueType::F32:
            return static_cast<double>(m_reader.read<float>(place));
        case GgufValueType::F64:
            return m_reader.read<double>(place);
        case GgufValueType::Bool:
            return m_reader.read<std::uint8_t>(place) != 0;
        case GgufValueType::String:
            return readText(place);
        case GgufValueType::Array:
            break;
        }
        throw Error(ErrorCode::Internal, "an array is no single metadata value");
    }

    std::string readText(const Place &place)
    {
        const std::string_view text = m_reader.readString(place);
        m_budget.charge(1, text.size(), m_reader, place);
        return std::string(text);
    }

    struct ArrayHead {
        GgufValueType type = GgufValueType::U8;
        std::uint64_t count = 0;
    };

    ArrayHead readArrayHead(const Place &place)
    {
        const std::size_t start = m_reader.position();
        const auto id = m_reader.read<std::uint32_t>(place);
        if (ggufValueTypeName(id).empty())
            m_reader.failAt(start,
                            place.text() + " has the unknown element type " + std::to_string(id) + ", wanted 0 to 12");
        const auto type = static_cast<GgufValueType>(id);
        const auto count = m_reader.read<std::uint64_t>(place);
        constexpr std::uint64_t lengthBytes = 8; // of a string
        constexpr std::uint64_t headBytes = 12;  // of an array
        const int fixed = ggufValueBytes(type);
        const std::uint64_t smallest = fixed > 0 ? static_cast<std::uint64_t>(fixed)
            : type == GgufValueType::String      ? lengthBytes
                                                 : headBytes;
        m_reader.checkCount(count, smallest, place);
        return {type, count};
    }

    void readArray(std::string_view key)
    {
        const Place place{"array of key", key};
        const ArrayHead head = readArrayHead(place);
        std::optional<MetadataValue> value;
        if (head.type == GgufValueType::Array) {
            for (std::uint64_t i = 0; i < head.count; ++i)
                skipArray(place, 2);
            m_header.warnings.push_back("key " + inQuotes(key) + " holds nested arrays, which are not read");
            return;
        }
        if (head.type == GgufValueType::String) {
            value = readTexts(head.count, place);
        } else {
            m_budget.charge(head.count, head.type == GgufValueType::Bool ? 1 : sizeof(std::uint64_t), m_reader, place);
            const std::byte *source =
                m_reader.take(head.count * static_cast<std::uint64_t>(ggufValueBytes(head.type)), place);
            if (m_arrays == ArrayContents::Keep)
                value = convertArray(head.type, source, head.count);
        }
        if (m_arrays == ArrayContents::Keep)
            m_header.metadata.add(std::string(key), std::move(*value),
                                  "array of " + std::string(ggufValueTypeName(static_cast<std::uint32_t>(head.type))));
    }

    std::vector<std::string> readTexts(std::uint64_t count, const Place &place)
    {
        m_budget.charge(count, sizeof(std::string), m_reader, place);
        std::vector<std::string> texts;
        if (m_arrays == ArrayContents::Keep)
            texts.reserve(static_cast<std::size_t>(count));
        for (std::uint64_t i = 0; i < count; ++i) {
            const std::string_view text = m_reader.readString(place);
            m_budget.charge(1, text.size(), m_reader, place);
            if (m_arrays == ArrayContents::Keep)
                texts.emplace_back(text);
        }
        return texts;
    }

    /// Steps over an array inside `depth - 1` others.
    void skipArray(const Place &place, int depth)
    {
        if (depth > maxArrayDepth)
            m_reader.fail(place.text() + " is nested deeper than " + std::to_string(maxArrayDepth) + " levels");
        const ArrayHead head = readArrayHead(place);
        if (head.type == GgufValueType::Array) {
            for (std::uint64_t i = 0; i < head.count; ++i)
                skipArray(place, depth + 1);
        } else if (head.type == GgufValueType::String) {
            for (std::uint64_t i = 0; i < head.count; ++i)
                (void)m_reader.readString(place);
        } else {
            (void)m_reader.take(head.count * static_cast<std::uint64_t>(ggufValueBytes(head.type)), place);
        }
    }

    ByteReader &m_reader;
    ArrayContents m_arrays;
    HeaderBudget &m_budget;
    GgufHeader &m_header;
    std::unordered_set<std::string_view> m_keys; ///< views into the file
};

} // namespace

void HeaderBudget::charge(std::uint64_t count, std::uint64_t bytesEach, const ByteReader &reader, const Place &place)
{
    if (bytesEach > 0 && count > m_left / bytesEach) {
        reader.fail(place.text() + ": the header is too large, it takes more than the limit of "
                    + std::to_string(limitBytes) + " bytes");
    }
    m_left -= count * bytesEach;
}

void readGgufMetadata(ByteReader &reader, std::uint64_t count, ArrayContents arrays, HeaderBudget &budget,
                      GgufHeader &header)
{
    MetadataReader metadata(reader, arrays, budget, header);
    for (std::uint64_t i = 0; i < count; ++i)
        metadata.readPair();
}

} // namespace engine
