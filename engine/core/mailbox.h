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

    /// Several in one go, so that the reader sees all or none. True when the box was empty before and is not now.
    bool pushAll(std::vector<Item> items)
    {
        if (items.empty())
            return false;
        bool wasEmpty = false;
        {
            const std::lock_guard lock(m_mutex);
            wasEmpty = m_items.empty();
            if (wasEmpty)
                m_items = std::move(items);
            else
                m_items.insert(m_items.end(), std::make_move_iterator(items.begin()),
                               std::make_move_iterator(items.end()));
        }
        m_filled.notify_one();
        return wasEmpty;
    }

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

    /// Everything pending, in order; empty when nothing is.
    [[nodiscard]] std::vector<Item> takeAll()
    {
        const std::lock_guard lock(m_mutex);
        return std::exchange(m_items, {});
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
    mutable std::mutex m_mutex;
    std::condition_variable_any m_filled;
    std::vector<Item> m_items;
};

} // namespace engine
