// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/events.h"

#include <functional>
#include <optional>
#include <string>

namespace ui {

/// How the server is wanted.
struct ServerWish {
    int port = 8642;     ///< 0 = any free one
    bool withKey = true; ///< clients must give an API key, which is made once
    bool operator==(const ServerWish &) const = default;
};

/// Where the server stands.
struct ServerState {
    enum class Phase { Stopped, NoModel, Starting, Running, Stopping, Failed };
    Phase phase = Phase::Stopped;
    std::string url;     ///< "http://127.0.0.1:8642", while it runs
    std::string apiKey;  ///< empty = everybody on this machine may ask
    std::string model;   ///< as clients call it, while it runs
    std::string problem; ///< Failed: one sentence; Running: what the model cannot do, or empty
    int connections = 0; ///< open ones
    bool operator==(const ServerState &) const = default;
};

/// The server behind the window's switch: OpenAI-compatible, on this machine's loopback, on the window's engine.
///
/// Every call returns at once. Implemented by the program, as the window does not know how serving works; destroyed, it
/// stops, and requests in flight end with an error that says so. Thread: the UI; the listener is called on another.
class ServerControl {
public:
    virtual ~ServerControl() = default;

    /// Starts it, also anew with another wish. Without a model it waits for one.
    virtual void start(const ServerWish &wish) = 0;
    virtual void stop() = 0;
    /// The model to serve from now on; a running server is started anew with it. Empty: none is loaded.
    virtual void setModel(const std::optional<engine::ModelInfo> &model) = 0;
    /// Hears of every new state. After the return the old listener is not running and never called again.
    virtual void setListener(std::function<void(const ServerState &)> listener) = 0;
};

} // namespace ui
