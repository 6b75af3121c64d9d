// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <deque>
#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

namespace engine {

/// The newest items of a stream, for one reader that comes when it likes: the oldest are overwritten when it does
/// not. Any thread may call anything.
template<typename Item> class Ring {
public:
    explicit Ring(std::size_t capacity)
        : m_capacity(capacity)
    {
    }

    void push(Item item)
    {
        const std::lock_guard lock(m_mutex);
        if (m_items.size() == m_capacity)
            m_items.pop_front();
        m_items.push_back(std::move(item));
    }

    /// All items since the last call that are still there, oldest first.
    [[nodiscard]] std::vector<Item> takeAll()
    {
        std::deque<Item> items;
        {
            const std::lock_guard lock(m_mutex);
            items.swap(m_items);
        }
        return {std::make_move_iterator(items.begin()), std::make_move_iterator(items.end())};
    }

private:
    std::mutex m_mutex;
    std::size_t m_capacity;
    std::deque<Item> m_items;
};

} // namespace engine
