// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/serve/api.h"
#include "app/serve/serve_limits.h"
#include "engine/api/engine.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace serve {

struct ServerOptions {
    std::string host = "127.0.0.1";
    int port = 8642;                                             ///< 0 = any free one
    std::string apiKey;                                          ///< empty = everybody may ask
    std::string otherPort = "another one is chosen with --port"; ///< said when the port is taken
    std::vector<std::string> otherNames; ///< further names of this machine that a Host line may hold
    int ioThreads = 2;                   ///< for all connections together
    bool vllmMetricNames = false;
    ServeLimits limits;
    std::function<void(const engine::Event &)> onOtherEvent; ///< of the engine, on an I/O thread; may be empty
};

/// Whether only this machine can reach the address.
[[nodiscard]] bool isLoopback(const std::string &host);
/// A model ready to be served under `name`; an empty one means that of its file or folder. What it lacks for some of
/// the paths is said in `lack`. \throws Error when its tokenizer cannot be read
[[nodiscard]] ServedModel openServedModel(const engine::ModelInfo &info, const std::string &name = {},
                                          std::string *lack = nullptr);
/// A new random key, 43 letters and digits.
[[nodiscard]] std::string randomKey();

/// An OpenAI-compatible server over an engine with a loaded model. It owns the engine's wake callback and takes all its
/// events while it runs. A fixed number of threads: the I/O threads and one for the bodies of requests.
class Server {
public:
    /// \pre `engine` outlives this
    Server(engine::Engine &engine, ServedModel model, ServerOptions options);
    ~Server();
    Server(const Server &) = delete;
    Server &operator=(const Server &) = delete;

    /// Listens from now on. \throws Error IoError naming address, port and why
    void start();
    /// Ends streams with an error event, cancels their requests and closes all; returns within about a second.
    void stop();

    [[nodiscard]] int port() const; ///< the one in use, after start()
    [[nodiscard]] std::string url() const;
    [[nodiscard]] int connections() const;

private:
    class Impl;
    std::unique_ptr<Impl> m_impl;
};

} // namespace serve
