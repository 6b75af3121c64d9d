// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/stats.h"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace engine {

/// Reads the devices' sensors five times a second on a thread of its own, which sleeps while nobody watches and is
/// not started before somebody does. Any thread.
class DeviceWatcher {
public:
    using Reader = std::function<std::vector<DeviceStats>()>;

    explicit DeviceWatcher(Reader read)
        : m_read(std::move(read))
    {
    }

    void watch(bool on);
    /// The newest reading, or null before the first.
    [[nodiscard]] std::shared_ptr<const std::vector<DeviceStats>> newest() const;

private:
    void run(const std::stop_token &stop);

    Reader m_read;
    mutable std::mutex m_mutex;
    std::condition_variable_any m_changed;
    bool m_watched = false;
    std::shared_ptr<const std::vector<DeviceStats>> m_newest;
    std::jthread m_thread; // last: it uses the members above until it is joined
};

} // namespace engine
