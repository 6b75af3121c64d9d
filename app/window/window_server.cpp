// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/window/window_server.h"

#include "app/serve/server.h"

#include <chrono>
#include <exception>
#include <utility>

namespace app {

using Phase = ui::ServerState::Phase;

namespace {

constexpr std::chrono::milliseconds countPeriod{500}; // of looking at the number of connections

serve::ServerOptions optionsOf(const ui::ServerWish &wish, const std::string &key)
{
    serve::ServerOptions options;
    options.port = wish.port;
    options.apiKey = wish.withKey ? key : std::string();
    options.otherPort = "choose another port";
    return options;
}

} // namespace

/// One run of the server, from start to stop, with what it serves.
class WindowServer::Running {
public:
    /// \throws engine::Error
    Running(engine::Engine &engine, const Wanted &wanted, const std::string &key)
        : m_revision(wanted.revision)
        , m_key(wanted.wish.withKey ? key : std::string())
        , m_model(serve::openServedModel(*wanted.model, {}, &m_lack))
        , m_server(engine, m_model, optionsOf(wanted.wish, key))
    {
        m_server.start();
    }

    [[nodiscard]] bool serves(const Wanted &wanted) const
    {
        return wanted.on && wanted.model && wanted.revision == m_revision;
    }
    [[nodiscard]] ui::ServerState state() const
    {
        return {Phase::Running, m_server.url(), m_key, m_model.name, m_lack, m_server.connections()};
    }

private:
    std::uint64_t m_revision;
    std::string m_key;
    std::string m_lack;
    serve::ServedModel m_model;
    serve::Server m_server;
};

WindowServer::WindowServer(std::unique_ptr<engine::Engine> guest)
    : m_engine(std::move(guest))
    , m_key(serve::randomKey())
    , m_thread([this](const std::stop_token &stop) { run(stop); })
{
}

WindowServer::~WindowServer() = default;

void WindowServer::start(const ui::ServerWish &wish)
{
    const std::lock_guard lock(m_mutex);
    if (m_wanted.on && m_wanted.wish == wish)
        return;
    m_wanted.on = true;
    m_wanted.wish = wish;
    ++m_wanted.revision;
    m_changed = true;
    m_wake.notify_one();
}

void WindowServer::stop()
{
    const std::lock_guard lock(m_mutex);
    m_wanted.on = false;
    m_changed = true;
    m_wake.notify_one();
}

void WindowServer::setModel(const std::optional<engine::ModelInfo> &model)
{
    const std::lock_guard lock(m_mutex);
    m_wanted.model = model;
    ++m_wanted.revision;
    m_changed = true;
    m_wake.notify_one();
}

void WindowServer::setListener(std::function<void(const ui::ServerState &)> listener)
{
    const std::lock_guard lock(m_listenerMutex);
    m_listener = std::move(listener);
    if (m_listener)
        m_listener(m_told);
}

void WindowServer::tell(const ui::ServerState &state)
{
    const std::lock_guard lock(m_listenerMutex);
    if (state == m_told)
        return;
    m_told = state;
    if (m_listener)
        m_listener(m_told);
}

void WindowServer::run(const std::stop_token &stop)
{
    while (!stop.stop_requested()) {
        Wanted wanted;
        {
            std::unique_lock lock(m_mutex);
            const auto isChanged = [this] { return std::exchange(m_changed, false); };
            if (m_running)
                (void)m_wake.wait_for(lock, stop, countPeriod, isChanged);
            else
                (void)m_wake.wait(lock, stop, isChanged);
            wanted = m_wanted;
        }
        if (!stop.stop_requested())
            follow(wanted);
    }
    m_running.reset();
    tell({});
}

void WindowServer::follow(const Wanted &wanted)
{
    if (m_running && !m_running->serves(wanted)) {
        ui::ServerState stopping = m_running->state();
        stopping.phase = Phase::Stopping;
        tell(stopping);
        m_running.reset();
    }
    if (m_running)
        tell(m_running->state());
    else if (wanted.on && wanted.model)
        launch(wanted);
    else if (wanted.on)
        tell({Phase::NoModel, {}, {}, {}, {}, 0});
    else if (m_told.phase != Phase::Failed) // why it failed stays until the next start; only this thread tells
        tell({});
}

void WindowServer::launch(const Wanted &wanted)
{
    tell({Phase::Starting, {}, {}, {}, {}, 0});
    std::string problem;
    try {
        m_running = std::make_unique<Running>(*m_engine, wanted, m_key);
        tell(m_running->state());
        return;
    } catch (const std::exception &error) {
        problem = error.what();
    }
    {
        const std::lock_guard lock(m_mutex);
        if (m_wanted.revision == wanted.revision)
            m_wanted.on = false;
    }
    tell({Phase::Failed, {}, {}, {}, problem, 0});
}

} // namespace app
