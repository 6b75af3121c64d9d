// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <vector>

namespace engine {

/// The newest items of a stream, for one reader that comes when it likes: the oldest are overwritten when it does
/// not. Items are copied in and out, so that places keep their memory: a writer allocates for a place that is new to
/// it, or too small. Any thread may call anything.
template<typename Item> class Ring {
public:
    explicit Ring(std::size_t capacity)
        : m_capacity(capacity)
    {
    }

    void push(const Item &item)
    {
        const std::lock_guard lock(m_mutex);
        if (m_count == m_capacity) {
            m_first = (m_first + 1) % m_capacity;
            --m_count;
        }
        const std::size_t place = (m_first + m_count++) % m_capacity;
        if (place == m_items.size())
            m_items.push_back(item);
        else
            m_items[place] = item;
    }

    /// All items since the last call that are still there, oldest first.
    [[nodiscard]] std::vector<Item> takeAll()
    {
        std::vector<Item> taken;
        while (takeSome(taken)) {
        }
        return taken;
    }

private:
    /// Few enough that a writer never waits long. False when none is left.
    bool takeSome(std::vector<Item> &taken)
    {
        constexpr std::size_t few = 64;
        const std::lock_guard lock(m_mutex);
        for (std::size_t left = std::min(few, m_count); left > 0; --left, --m_count) {
            taken.push_back(m_items[m_first]);
            m_first = (m_first + 1) % m_capacity;
        }
        if (m_count == 0)
            m_first = 0; // the places that have memory already come first
        return m_count > 0;
    }

    std::mutex m_mutex;
    std::size_t m_capacity;
    std::vector<Item> m_items; ///< places, made when they are first used
    std::size_t m_first = 0;
    std::size_t m_count = 0;
};

} // namespace engine
