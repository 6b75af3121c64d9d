// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <stop_token>
#include <utility>
#include <vector>

namespace engine {

/// A queue between threads of which nothing is lost. The reader takes the whole vector at once, so a burst costs it
/// one lock. Any thread may call anything.
template<typename Item> class Mailbox {
public:
    /// True when the box was empty before.
    bool push(Item item)
    {
        bool wasEmpty = false;
        {
            const std::lock_guard lock(m_mutex);
            wasEmpty = m_items.empty();
            m_items.push_back(std::move(item));
        }
        m_filled.notify_one();
        return wasEmpty;
    }

    /// Several in one go, so that the reader sees all or none; `items` is empty then, with memory for others. True when
    /// the box was empty before and is not now.
    bool pushAll(std::vector<Item> &items)
    {
        if (items.empty())
            return false;
        bool wasEmpty = false;
        {
            const std::lock_guard lock(m_mutex);
            wasEmpty = m_items.empty();
            if (wasEmpty)
                m_items.swap(items);
            else
                m_items.insert(m_items.end(), std::make_move_iterator(items.begin()),
                               std::make_move_iterator(items.end()));
        }
        items.clear();
        m_filled.notify_one();
        return wasEmpty;
    }

    bool pushAll(std::vector<Item> &&items) { return pushAll(items); }

    /// Replaces the newest pending item that `same` accepts, else pushes: a dragged slider leaves one command.
    template<typename Same> void replaceOrPush(Item item, const Same &same)
    {
        {
            const std::lock_guard lock(m_mutex);
            const auto old = std::find_if(m_items.rbegin(), m_items.rend(), same);
            if (old != m_items.rend())
                *old = std::move(item);
            else
                m_items.push_back(std::move(item));
        }
        m_filled.notify_one();
    }

    /// Everything pending, in order; empty when nothing is. The box goes on with memory that the reader has made, so
    /// that whoever fills it allocates nothing while it holds no more than usual.
    [[nodiscard]] std::vector<Item> takeAll()
    {
        std::vector<Item> taken;
        const std::size_t room = roomForNext();
        if (room == 0)
            return taken;
        taken.reserve(room);
        const std::lock_guard lock(m_mutex);
        taken.swap(m_items);
        return taken;
    }

    [[nodiscard]] bool empty() const
    {
        const std::lock_guard lock(m_mutex);
        return m_items.empty();
    }

    /// Sleeps until something is pending, `stop` is requested or `deadline` has come.
    void waitUntil(std::stop_token stop, std::chrono::steady_clock::time_point deadline)
    {
        std::unique_lock lock(m_mutex);
        m_filled.wait_until(lock, std::move(stop), deadline, [this] { return !m_items.empty(); });
    }

private:
    /// Twice what is pending; 0 when nothing is.
    [[nodiscard]] std::size_t roomForNext() const
    {
        constexpr std::size_t least = 8;
        const std::lock_guard lock(m_mutex);
        return m_items.empty() ? 0 : std::max(least, 2 * m_items.size());
    }

    mutable std::mutex m_mutex;
    std::condition_variable_any m_filled;
    std::vector<Item> m_items;
};

} // namespace engine
