// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/device_watcher.h"

#include <chrono>
#include <exception>
#include <utility>

namespace engine {

namespace {
constexpr std::chrono::milliseconds period{200};
}

void DeviceWatcher::watch(bool on)
{
    {
        const std::lock_guard lock(m_mutex);
        m_watched = on;
        if (on && !m_thread.joinable())
            m_thread = std::jthread([this](const std::stop_token &stop) { run(stop); });
    }
    m_changed.notify_all();
}

std::shared_ptr<const std::vector<DeviceStats>> DeviceWatcher::newest() const
{
    const std::lock_guard lock(m_mutex);
    return m_newest;
}

void DeviceWatcher::run(const std::stop_token &stop)
{
    std::unique_lock lock(m_mutex);
    while (m_changed.wait(lock, stop, [this] { return m_watched; }) && !stop.stop_requested()) {
        lock.unlock();
        std::shared_ptr<const std::vector<DeviceStats>> reading;
        try {
            reading = std::make_shared<const std::vector<DeviceStats>>(m_read());
        } catch (const std::exception &) {
            // A sensor that fails once may answer the next time; until then the last reading stands.
        }
        lock.lock();
        if (reading)
            m_newest = std::move(reading);
        m_changed.wait_for(lock, stop, period, [this] { return !m_watched; });
    }
}

} // namespace engine
