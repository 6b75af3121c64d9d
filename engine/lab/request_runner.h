// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/engine.h"

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

namespace engine {

/// What one request came to.
struct RequestResult {
    std::string text;
    std::string reasoning;
    std::vector<ToolCall> toolCalls;
    std::vector<int> ids;
    std::vector<SampledToken> logprobs;
    RequestFinished finished;
};

/// Waiting calls over an Engine, for the command line and for measurements. It owns the engine's wake callback and
/// takes all its events. Thread: one caller; the engine must outlive this object's last call.
class RequestRunner {
public:
    explicit RequestRunner(Engine &engine);
    ~RequestRunner();
    RequestRunner(const RequestRunner &) = delete;
    RequestRunner &operator=(const RequestRunner &) = delete;

    /// Returns when the model is loaded. \throws Error as the engine reports it, or Cancelled on a stop request
    ModelInfo load(const std::string &path, const EngineConfig &config, std::stop_token stop,
                   const std::function<void(const LoadProgress &)> &onProgress = {});

    using OnText = std::function<void(std::size_t request, const TokenEvent &event)>;
    using OnFinished = std::function<void(std::size_t request, const RequestResult &result)>;
    /// Submits all at once and returns when every one has ended; a stop request cancels them all. `request` is the
    /// place in the list.
    void run(std::vector<Request> requests, std::stop_token stop, const OnText &onText, const OnFinished &onFinished);

    /// Called for events that belong to no request of this runner (a changed model file, applied parameters).
    void setOtherEvents(std::function<void(const Event &)> onEvent) { m_onOther = std::move(onEvent); }

    /// The engine's events since the last call; waits for some at most `seconds`. For callers that keep their own
    /// account of requests; not while run() or load() waits.
    [[nodiscard]] std::vector<Event> waitForEvents(double seconds);

private:
    Engine &m_engine;
    std::function<void(const Event &)> m_onOther;
    std::mutex m_mutex;
    std::condition_variable m_ready;
    bool m_wake = false;
};

} // namespace engine
