// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/serve/server.h"

#include "app/serve/connection.h"
#include "app/serve/engine_hub.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>

#include <atomic>
#include <mutex>
#include <random>
#include <sys/resource.h>
#include <thread>
#include <utility>
#include <vector>

namespace serve {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;

namespace {

constexpr std::chrono::milliseconds tickPeriod{100};
constexpr std::chrono::milliseconds stopGrace{1000};

/// Every client is an open file: asks for as many as the system allows.
void allowManyFiles()
{
    rlimit files{};
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

tcp::endpoint endpointOf(asio::io_context &io, const std::string &host, int port)
{
    boost::system::error_code error;
    const auto number = static_cast<std::uint16_t>(port);
    const asio::ip::address address = asio::ip::make_address(host, error);
    if (!error)
        return {address, number};
    tcp::resolver resolver(io);
    const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::numeric_service, error);
    if (error || found.empty())
        throw engine::Error(engine::ErrorCode::IoError,
                            "--host " + host + ": no address of this name was found: " + error.message());
    return found.begin()->endpoint();
}

} // namespace

bool isLoopback(const std::string &host)
{
    boost::system::error_code error;
    const asio::ip::address address = asio::ip::make_address(host, error);
    return error ? host == "localhost" : address.is_loopback();
}

std::string randomKey()
{
    constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    constexpr int length = 43; // 256 bits
    std::random_device device;
    std::uniform_int_distribution<std::size_t> pick(0, letters.size() - 1);
    std::string key;
    for (int i = 0; i < length; ++i)
        key += letters[pick(device)];
    return key;
}

class Server::Impl {
public:
    Impl(engine::Engine &engine, ServedModel model, ServerOptions options)
        : m_engine(engine)
        , m_options(std::move(options))
        , m_hub(engine)
        , m_api(std::move(model), m_hub, m_options.vllmMetricNames)
        , m_access(m_options.host, m_options.apiKey, m_options.otherNames)
        , m_shared{m_api, m_hub, m_access, m_options.limits,
                   [this](std::function<void()> job) { asio::post(m_worker, std::move(job)); }}
        , m_acceptor(m_io)
        , m_timer(m_io)
    {
    }
    ~Impl() { stop(); }

    void start()
    {
        allowManyFiles();
        listen();
        accept();
        armTimer();
        m_engine.setWakeCallback([this] { queuePump(); });
        queuePump(); // what came before the callback stood
        for (int i = 0; i < m_options.ioThreads; ++i)
            m_threads.emplace_back([this] { m_io.run(); });
    }

    void stop()
    {
        if (m_threads.empty())
            return;
        asio::post(m_io, [this] {
            boost::system::error_code ignored;
            m_acceptor.close(ignored);
        });
        forEach([](Connection &connection) { connection.shutDown(); });
        const auto deadline = std::chrono::steady_clock::now() + stopGrace;
        while (m_shared.connections > 0 && std::chrono::steady_clock::now() < deadline)
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        m_engine.setWakeCallback({});
        m_worker.join();
        m_io.stop();
        for (std::thread &thread : m_threads)
            thread.join();
        m_threads.clear();
    }

    [[nodiscard]] int port() const { return m_port; }
    [[nodiscard]] int connections() const { return m_shared.connections; }
    [[nodiscard]] std::string url() const
    {
        const bool v6 = m_options.host.find(':') != std::string::npos;
        return "http://" + (v6 ? '[' + m_options.host + ']' : m_options.host) + ':' + std::to_string(m_port);
    }

private:
    void listen()
    {
        const tcp::endpoint endpoint = endpointOf(m_io, m_options.host, m_options.port);
        boost::system::error_code error;
        m_acceptor.open(endpoint.protocol(), error);
        if (!error)
            m_acceptor.set_option(tcp::acceptor::reuse_address(true), error);
        if (!error)
            m_acceptor.bind(endpoint, error);
        if (!error)
            m_acceptor.listen(tcp::acceptor::max_listen_connections, error);
        if (error)
            throw engine::Error(engine::ErrorCode::IoError,
                                "cannot listen on " + m_options.host + " port " + std::to_string(m_options.port) + ": "
                                    + error.message() + "; " + m_options.otherPort);
        m_port = m_acceptor.local_endpoint().port();
    }

    void accept()
    {
        m_acceptor.async_accept(
            asio::make_strand(m_io),
            [this](const boost::system::error_code &error, tcp::socket socket) { onAccept(error, std::move(socket)); });
    }

    void onAccept(const boost::system::error_code &error, tcp::socket socket)
    {
        if (!m_acceptor.is_open())
            return;
        if (error) { // out of files, or a client that has gone again: the next tick tries anew
            m_acceptPaused = true;
            return;
        }
        welcome(std::move(socket));
        accept();
    }

    void welcome(tcp::socket socket)
    {
        constexpr int sendBuffer = 1 << 18; // with the output limit of a stream, what a slow reader can hold
        boost::system::error_code ignored;
        socket.set_option(tcp::no_delay(true), ignored);
        socket.set_option(asio::socket_base::keep_alive(true), ignored);
        socket.set_option(asio::socket_base::send_buffer_size(sendBuffer), ignored);
        const bool full = m_shared.connections >= m_options.limits.connections;
        const auto connection = std::make_shared<Connection>(std::move(socket), m_shared);
        {
            const std::lock_guard lock(m_mutex);
            m_connections.push_back(connection);
        }
        asio::post(connection->executor(), [connection, full] {
            if (full)
                connection->turnAway();
            else
                connection->start();
        });
    }

    /// Runs `use` for every connection, on its own strand.
    template<typename Use> void forEach(Use use)
    {
        const std::lock_guard lock(m_mutex);
        for (const std::weak_ptr<Connection> &weak : m_connections)
            if (const auto connection = weak.lock())
                asio::post(connection->executor(), [connection, use] { use(*connection); });
    }

    void armTimer()
    {
        m_timer.expires_after(tickPeriod);
        m_timer.async_wait([this](const boost::system::error_code &error) {
            if (error)
                return;
            tick();
            armTimer();
        });
    }

    void tick()
    {
        const auto now = std::chrono::steady_clock::now();
        {
            const std::lock_guard lock(m_mutex);
            std::erase_if(m_connections, [&](const std::weak_ptr<Connection> &weak) {
                const auto connection = weak.lock();
                if (connection && connection->isDue(now))
                    asio::post(connection->executor(), [connection] { connection->tick(); });
                return !connection;
            });
        }
        if (m_acceptPaused.exchange(false) && m_acceptor.is_open())
            accept();
    }

    void queuePump()
    {
        if (!m_pumpQueued.exchange(true))
            asio::post(m_pumpStrand, [this] {
                m_pumpQueued = false;
                m_hub.pump([this](const engine::Event &event) {
                    if (m_options.onOtherEvent)
                        m_options.onOtherEvent(event);
                });
            });
    }

    engine::Engine &m_engine;
    ServerOptions m_options;
    EngineHub m_hub;
    Api m_api;
    AccessRules m_access;
    ServerShared m_shared;
    std::mutex m_mutex;
    std::vector<std::weak_ptr<Connection>> m_connections; // guarded by m_mutex
    std::atomic<bool> m_pumpQueued = false;
    std::atomic<bool> m_acceptPaused = false;
    int m_port = 0;
    asio::io_context m_io;
    asio::strand<asio::io_context::executor_type> m_pumpStrand = asio::make_strand(m_io);
    tcp::acceptor m_acceptor;
    asio::steady_timer m_timer;
    asio::thread_pool m_worker{1};
    std::vector<std::thread> m_threads;
};

Server::Server(engine::Engine &engine, ServedModel model, ServerOptions options)
    : m_impl(std::make_unique<Impl>(engine, std::move(model), std::move(options)))
{
}

Server::~Server() = default;

void Server::start()
{
    m_impl->start();
}

void Server::stop()
{
    m_impl->stop();
}

int Server::port() const
{
    return m_impl->port();
}

std::string Server::url() const
{
    return m_impl->url();
}

int Server::connections() const
{
    return m_impl->connections();
}

} // namespace serve
