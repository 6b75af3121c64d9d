// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace engine {

/// What is being read, for errors: `kind` and, when it is known, the name of the thing it belongs to.
struct Place {
    std::string_view kind; ///< "header", "value of key", "tensor"
    std::string_view name; ///< may be empty

    [[nodiscard]] std::string text() const;
};

/// Reads little-endian values out of a file's bytes; every step is checked against the bytes left.
/// \throws Error Refused naming file, place and byte offset
class ByteReader {
public:
    ByteReader(std::span<const std::byte> bytes, std::string file)
        : m_bytes(bytes)
        , m_file(std::move(file))
    {
    }

    [[nodiscard]] std::size_t position() const { return m_position; }
    [[nodiscard]] std::size_t left() const { return m_bytes.size() - m_position; }

    template<typename Value> [[nodiscard]] Value read(const Place &place)
    {
        static_assert(std::is_arithmetic_v<Value>);
        Value value;
        std::memcpy(&value, take(sizeof(Value), place), sizeof(Value));
        return value;
    }
    /// The next `count` bytes.
    [[nodiscard]] const std::byte *take(std::uint64_t count, const Place &place)
    {
        if (count > left())
            failShort(count, place);
        const std::byte *start = m_bytes.data() + m_position;
        m_position += static_cast<std::size_t>(count);
        return start;
    }
    /// A string: u64 length, then its bytes. The view lives as long as the file's bytes.
    [[nodiscard]] std::string_view readString(const Place &place)
    {
        const auto length = read<std::uint64_t>(place);
        if (length > left())
            failLength(length, place);
        return {reinterpret_cast<const char *>(take(length, place)), static_cast<std::size_t>(length)};
    }
    /// Refuses a count whose entries, `smallestEntry` bytes at least, cannot lie in the bytes left.
    void checkCount(std::uint64_t count, std::uint64_t smallestEntry, const Place &place) const;

    /// Refuses the file: `message` is the part of the sentence between the file's name and the byte offset.
    [[noreturn]] void fail(const std::string &message) const;
    [[noreturn]] void failAt(std::size_t position, const std::string &message) const;

private:
    [[noreturn]] void failShort(std::uint64_t wanted, const Place &place) const;
    [[noreturn]] void failLength(std::uint64_t length, const Place &place) const;

    std::span<const std::byte> m_bytes;
    std::string m_file;
    std::size_t m_position = 0;
};

} // namespace engine
