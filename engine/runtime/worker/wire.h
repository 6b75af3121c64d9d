// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/error.h"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace engine {

/// `T`, const or not: wireFields(wire, value) of a type serves both directions.
template<typename T, typename Type>
concept Is = std::same_as<std::remove_const_t<T>, Type>;

/// Values as bytes for another process of the same program, in which they have the same layout. Types that are more
/// than their bytes have a wireFields.
class WireWriter {
public:
    template<typename... Values> void operator()(const Values &...values) { (put(values), ...); }
    [[nodiscard]] std::vector<std::byte> take() { return std::move(m_bytes); }

private:
    void append(const void *data, std::size_t bytes)
    {
        const auto *first = static_cast<const std::byte *>(data);
        m_bytes.insert(m_bytes.end(), first, first + bytes);
    }
    template<typename T> void put(const T &value)
    {
        if constexpr (std::is_trivially_copyable_v<T>)
            append(&value, sizeof value);
        else
            wireFields(*this, value);
    }
    void put(const std::string &text)
    {
        put(static_cast<std::uint64_t>(text.size()));
        append(text.data(), text.size());
    }
    template<typename A, typename B> void put(const std::pair<A, B> &pair) { (*this)(pair.first, pair.second); }
    template<typename T> void put(const std::vector<T> &items)
    {
        put(static_cast<std::uint64_t>(items.size()));
        if constexpr (std::is_trivially_copyable_v<T>)
            append(items.data(), items.size() * sizeof(T));
        else
            for (const T &item : items)
                put(item);
    }

    std::vector<std::byte> m_bytes;
};

/// The way back. \throws Error Internal where there are fewer bytes than wanted
class WireReader {
public:
    explicit WireReader(std::vector<std::byte> bytes)
        : m_bytes(std::move(bytes))
    {
    }
    template<typename... Values> void operator()(Values &...values) { (get(values), ...); }

private:
    const std::byte *next(std::size_t bytes)
    {
        if (bytes > m_bytes.size() - m_at)
            throw Error(ErrorCode::Internal,
                        "a message between processes ends at byte " + std::to_string(m_bytes.size()) + ", wanted "
                            + std::to_string(bytes) + " more at " + std::to_string(m_at));
        m_at += bytes;
        return m_bytes.data() + (m_at - bytes);
    }
    std::size_t count(std::size_t itemBytes)
    {
        std::uint64_t items = 0;
        get(items);
        if (items > (m_bytes.size() - m_at) / itemBytes)
            throw Error(ErrorCode::Internal,
                        "a message between processes holds " + std::to_string(m_bytes.size() - m_at) + " bytes, wanted "
                            + std::to_string(items) + " items of at least " + std::to_string(itemBytes));
        return static_cast<std::size_t>(items);
    }
    template<typename T> void get(T &value)
    {
        if constexpr (std::is_trivially_copyable_v<T>)
            std::memcpy(static_cast<void *>(&value), next(sizeof value), sizeof value);
        else
            wireFields(*this, value);
    }
    void get(std::string &text)
    {
        const std::size_t bytes = count(1);
        text.assign(reinterpret_cast<const char *>(next(bytes)), bytes);
    }
    template<typename A, typename B> void get(std::pair<A, B> &pair) { (*this)(pair.first, pair.second); }
    template<typename T> void get(std::vector<T> &items)
    {
        if constexpr (std::is_trivially_copyable_v<T>) {
            items.resize(count(sizeof(T)));
            if (!items.empty())
                std::memcpy(items.data(), next(items.size() * sizeof(T)), items.size() * sizeof(T));
        } else {
            items.resize(count(1));
            for (T &item : items)
                get(item);
        }
    }

    std::vector<std::byte> m_bytes;
    std::size_t m_at = 0;
};

} // namespace engine
