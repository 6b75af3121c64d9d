// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/bpe_tokens.h"

#include "engine/api/error.h"

#include <xxhash.h>

#include <bit>

namespace engine {

void TokenTable::reserve(std::size_t tokens, std::size_t bytes)
{
    m_spans.reserve(tokens);
    m_bytes.reserve(bytes);
    if (const std::size_t wanted = std::bit_ceil(tokens * 2 + 16); wanted > m_slots.size())
        grow(wanted);
}

void TokenTable::set(int id, std::string_view spelling)
{
    CHECK(id >= 0 && !has(id));
    if (m_bytes.size() + spelling.size() >= absent)
        throw Error(ErrorCode::Refused, "vocabulary: the spellings are too large, more than 4 GiB together");
    const auto place = static_cast<std::size_t>(id);
    if (place >= m_spans.size())
        m_spans.resize(place + 1);
    m_spans[place] = {static_cast<std::uint32_t>(m_bytes.size()), static_cast<std::uint32_t>(spelling.size())};
    m_bytes += spelling;
}

int TokenTable::index(int id)
{
    if ((m_indexed + 1) * 2 > m_slots.size())
        grow(std::bit_ceil(m_slots.size() * 2 + 16));
    std::int32_t &slot = m_slots[slotOf(spelling(id))];
    const int loser = slot;
    m_indexed += loser < 0 ? 1 : 0;
    slot = id;
    return loser;
}

bool TokenTable::has(int id) const
{
    return id >= 0 && id < size() && m_spans[static_cast<std::size_t>(id)].bytes != absent;
}

std::string_view TokenTable::spelling(int id) const
{
    if (!has(id))
        return {};
    const Span &span = m_spans[static_cast<std::size_t>(id)];
    return std::string_view(m_bytes).substr(span.begin, span.bytes);
}

int TokenTable::find(std::string_view spelling) const
{
    return m_slots.empty() ? -1 : m_slots[slotOf(spelling)];
}

std::size_t TokenTable::slotOf(std::string_view wanted) const
{
    const std::size_t mask = m_slots.size() - 1;
    std::size_t slot = XXH3_64bits(wanted.data(), wanted.size()) & mask;
    while (m_slots[slot] >= 0 && spelling(m_slots[slot]) != wanted)
        slot = (slot + 1) & mask;
    return slot;
}

void TokenTable::grow(std::size_t slots)
{
    std::vector<std::int32_t> old(slots, -1);
    old.swap(m_slots);
    for (const std::int32_t id : old) {
        if (id >= 0)
            m_slots[slotOf(spelling(id))] = id;
    }
}

} // namespace engine
