// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

/// The spellings of a vocabulary in one block of bytes, with a hash index from spelling to id. Ids may have gaps.
class TokenTable {
public:
    void reserve(std::size_t tokens, std::size_t bytes);
    /// Gives `id` its spelling. \pre id >= 0 and without one yet
    void set(int id, std::string_view spelling);
    /// Makes `id` the one that find() answers for its spelling; an earlier one loses.
    /// \return the id that lost, or -1
    int index(int id);

    [[nodiscard]] int size() const { return static_cast<int>(m_spans.size()); } ///< highest id + 1
    [[nodiscard]] bool has(int id) const
    {
        return id >= 0 && id < size() && m_spans[static_cast<std::size_t>(id)].bytes != absent;
    }
    [[nodiscard]] std::string_view spelling(int id) const ///< empty when there is none
    {
        if (!has(id))
            return {};
        const Span &span = m_spans[static_cast<std::size_t>(id)];
        return {m_bytes.data() + span.begin, span.bytes};
    }
    [[nodiscard]] int find(std::string_view spelling) const; ///< -1 when absent

private:
    struct Span {
        std::uint32_t begin = 0;
        std::uint32_t bytes = absent;
    };
    static constexpr std::uint32_t absent = 0xFFFFFFFF;

    struct Slot {
        std::int32_t id = -1;  ///< -1 = free
        std::uint32_t tag = 0; ///< high half of the spelling's hash
    };

    [[nodiscard]] std::size_t slotOf(std::string_view spelling, std::uint64_t hash) const;
    void grow(std::size_t slots);

    std::string m_bytes;
    std::vector<Span> m_spans;
    std::vector<Slot> m_slots; ///< open addressing, a power of two
    std::size_t m_indexed = 0;
};

} // namespace engine
