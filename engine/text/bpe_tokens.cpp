// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/bpe_tokens.h"

#include "engine/api/error.h"

#include <xxhash.h>

#include <bit>

namespace engine {
namespace {

std::uint64_t hashOf(std::string_view text)
{
    return XXH3_64bits(text.data(), text.size());
}

std::uint32_t tagOf(std::uint64_t hash)
{
    return static_cast<std::uint32_t>(hash >> 32U);
}

} // namespace

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
    const std::uint64_t hash = hashOf(spelling(id));
    Slot &slot = m_slots[slotOf(spelling(id), hash)];
    const int loser = slot.id;
    m_indexed += loser < 0 ? 1 : 0;
    slot = {id, tagOf(hash)};
    return loser;
}

int TokenTable::find(std::string_view spelling) const
{
    return m_slots.empty() ? -1 : m_slots[slotOf(spelling, hashOf(spelling))].id;
}

std::size_t TokenTable::slotOf(std::string_view wanted, std::uint64_t hash) const
{
    const std::size_t mask = m_slots.size() - 1;
    std::size_t at = hash & mask;
    while (m_slots[at].id >= 0 && (m_slots[at].tag != tagOf(hash) || spelling(m_slots[at].id) != wanted))
        at = (at + 1) & mask;
    return at;
}

void TokenTable::grow(std::size_t slots)
{
    std::vector<Slot> old(slots);
    old.swap(m_slots);
    for (const Slot &slot : old) {
        if (slot.id >= 0) {
            const std::uint64_t hash = hashOf(spelling(slot.id));
            m_slots[slotOf(spelling(slot.id), hash)] = slot;
        }
    }
}

} // namespace engine
