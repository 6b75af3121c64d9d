// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/engine.h"

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace serve {

/// Who gets the events of some requests. Called on the thread that delivers; must not block.
class EventSink {
public:
    virtual ~EventSink() = default;
    /// In order. A RequestFinished is the last one of its request.
    virtual void take(std::vector<engine::Event> events) = 0;
};

/// One open request, as `/slots` shows it.
struct OpenRequest {
    engine::RequestId id = 0;
    bool accepted = false;
    int promptTokens = 0;
    int cachedTokens = 0;
    int decodedTokens = 0;
    int maxTokens = 0; ///< 0 = until the context is full
};

/// Brings the events of an engine to those who submitted the requests. Others may share the engine: deliver() tells
/// which events are not ours. Thread: any.
class EngineHub {
public:
    explicit EngineHub(engine::Engine &engine);

    /// `n` answers to each prompt. `remember` gets the ids, prompt by prompt, before any event of them is delivered.
    void submit(std::vector<engine::Request> prompts, int n, const std::shared_ptr<EventSink> &sink,
                const std::function<void(const std::vector<engine::RequestId> &)> &remember);
    void cancel(const std::vector<engine::RequestId> &ids);

    /// Takes all events of the engine and delivers them; those that are not ours go to `other`.
    void pump(const std::function<void(const engine::Event &)> &other);

    [[nodiscard]] std::vector<OpenRequest> open() const; ///< in the order of ids
    [[nodiscard]] engine::EngineTotals totals() const { return m_engine.totals(); }

private:
    struct Route {
        std::weak_ptr<EventSink> sink;
        OpenRequest state;
    };

    static void note(OpenRequest &state, const engine::Event &event);

    engine::Engine &m_engine;
    mutable std::mutex m_mutex;
    std::unordered_map<engine::RequestId, Route> m_routes;
};

} // namespace serve
