// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/events.h"
#include "engine/core/mailbox.h"

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace engine {

/// Events on their way out, and the callback that tells of the first one after the box was empty. Any thread.
class EventOutbox {
public:
    /// Takes the events out of the list, which keeps memory for others.
    void push(std::vector<Event> &events)
    {
        if (m_box.pushAll(events))
            wake();
    }
    void push(std::vector<Event> &&events) { push(events); }

    [[nodiscard]] std::vector<Event> takeAll() { return m_box.takeAll(); }

    /// After the return the old callback is not running and never called again. Not from within a callback.
    void setWakeCallback(std::function<void()> callback)
    {
        const std::lock_guard lock(m_mutex);
        m_wake = std::move(callback);
    }

    /// For a callback that was set while events were pending already.
    void wakeIfPending()
    {
        if (!m_box.empty())
            wake();
    }

private:
    void wake()
    {
        const std::lock_guard lock(m_mutex);
        if (m_wake)
            m_wake();
    }

    Mailbox<Event> m_box;
    std::mutex m_mutex;
    std::function<void()> m_wake;
};

} // namespace engine
