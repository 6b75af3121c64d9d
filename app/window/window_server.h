// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/engine.h"
#include "ui/server_control.h"

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace app {

/// The window's server: app/serve on the guest's side of the window's engine. A thread of its own brings what is to
/// what is wanted, since starting reads the model's files and stopping waits for clients.
class WindowServer final : public ui::ServerControl {
public:
    /// `guest` is a side of shareEngine().
    explicit WindowServer(std::unique_ptr<engine::Engine> guest);
    ~WindowServer() override;
    WindowServer(const WindowServer &) = delete;
    WindowServer &operator=(const WindowServer &) = delete;

    void start(const ui::ServerWish &wish) override;
    void stop() override;
    void setModel(const std::optional<engine::ModelInfo> &model) override;
    void setListener(std::function<void(const ui::ServerState &)> listener) override;

private:
    struct Wanted {
        bool on = false;
        ui::ServerWish wish;
        std::optional<engine::ModelInfo> model;
        std::uint64_t revision = 0; ///< of wish and model: a server of another one is started anew
    };
    class Running;

    void run(const std::stop_token &stop);
    void follow(const Wanted &wanted);
    void launch(const Wanted &wanted);
    void tell(const ui::ServerState &state);

    std::unique_ptr<engine::Engine> m_engine;
    std::string m_key; // made once, so that clients keep it while the program runs
    std::mutex m_mutex;
    std::condition_variable_any m_wake;
    Wanted m_wanted;        // guarded by m_mutex
    bool m_changed = false; // guarded by m_mutex
    std::mutex m_listenerMutex;
    std::function<void(const ui::ServerState &)> m_listener; // guarded by m_listenerMutex
    ui::ServerState m_told;                                  // guarded by m_listenerMutex
    std::unique_ptr<Running> m_running;                      // of the thread
    std::jthread m_thread;                                   // last: ends before anything it uses goes
};

} // namespace app
