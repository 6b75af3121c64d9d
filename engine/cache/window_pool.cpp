// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/cache/window_pool.h"

#include "engine/api/error.h"

#include <utility>

namespace engine {

WindowPool::WindowPool(int blocks, int size)
    : m_slotOf(index(blocks), -1)
    , m_slots(index(size))
{
    CHECK(blocks >= 1 && size >= 1);
    for (int slot = 0; slot < size; ++slot)
        m_slots[index(slot)].place = m_empty.insert(m_empty.end(), slot);
}

bool WindowPool::isKept(int block) const
{
    const int slot = slotOf(block);
    return slot >= 0 && m_slots[index(slot)].references == 0;
}

bool WindowPool::holds(int block, int leading) const
{
    return slotOf(block) >= 0 && missing(block) <= leading;
}

void WindowPool::give(int block, int slot)
{
    CHECK(slotOf(block) < 0);
    m_slotOf[index(block)] = slot;
    m_slots[index(slot)].block = block;
    m_slots[index(slot)].missing = 0;
}

void WindowPool::clear(int slot, std::list<int> &from)
{
    Slot &entry = m_slots[index(slot)];
    m_slotOf[index(entry.block)] = -1;
    entry.block = -1;
    m_empty.splice(m_empty.begin(), from, entry.place);
}

void WindowPool::take(int block)
{
    if (m_empty.empty()) {
        CHECK(!m_kept.empty());
        clear(m_kept.front(), m_kept);
    }
    const int slot = m_empty.front();
    give(block, slot);
    m_slots[index(slot)].references = 1;
    m_used.splice(m_used.end(), m_empty, m_slots[index(slot)].place);
}

void WindowPool::reference(int block)
{
    Slot &slot = m_slots[index(slotOf(block))];
    if (slot.references++ == 0)
        m_used.splice(m_used.end(), m_kept, slot.place);
}

void WindowPool::unreference(int block, bool keep)
{
    const int number = slotOf(block);
    CHECK(number >= 0);
    Slot &slot = m_slots[index(number)];
    CHECK(slot.references > 0);
    if (--slot.references > 0)
        return;
    if (keep)
        m_kept.splice(m_kept.end(), m_used, slot.place);
    else
        clear(number, m_used);
}

void WindowPool::forget(int block)
{
    if (isKept(block))
        clear(slotOf(block), m_kept);
}

bool WindowPool::keep(int block)
{
    if (m_empty.empty())
        return false;
    const int slot = m_empty.front();
    give(block, slot);
    m_kept.splice(m_kept.begin(), m_empty, m_slots[index(slot)].place);
    return true;
}

std::string WindowPool::audit(std::span<const int> references) const
{
    std::size_t used = 0;
    for (std::size_t block = 0; block < m_slotOf.size(); ++block) {
        const int slot = m_slotOf[block];
        const int counted = slot < 0 ? 0 : m_slots[index(slot)].references;
        if (counted != references[block] || (slot >= 0 && m_slots[index(slot)].block != static_cast<int>(block)))
            return "the window slot of block " + std::to_string(block) + " counts " + std::to_string(counted)
                + " references, but " + std::to_string(references[block]) + " tables hold it";
        used += counted > 0 ? 1 : 0;
    }
    if (used != m_used.size() || m_used.size() + m_kept.size() + m_empty.size() != m_slots.size())
        return "of " + std::to_string(m_slots.size()) + " window slots " + std::to_string(m_used.size())
            + " are listed as used, counted are " + std::to_string(used) + "; " + std::to_string(m_kept.size())
            + " are kept, " + std::to_string(m_empty.size()) + " empty";
    return {};
}

} // namespace engine
