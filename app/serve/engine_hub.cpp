// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/serve/engine_hub.h"

#include <algorithm>
#include <utility>

namespace serve {

EngineHub::EngineHub(engine::Engine &engine)
    : m_engine(engine)
{
}

void EngineHub::submit(std::vector<engine::Request> prompts, int n, const std::shared_ptr<EventSink> &sink,
                       const std::function<void(const std::vector<engine::RequestId> &)> &remember)
{
    std::vector<int> limits;
    for (const engine::Request &prompt : prompts)
        limits.push_back(prompt.sampling.maxTokens);
    // The lock holds back events that come before their routes stand.
    const std::lock_guard lock(m_mutex);
    std::vector<engine::RequestId> ids;
    if (n == 1) {
        ids = m_engine.submitAll(std::move(prompts));
    } else {
        for (engine::Request &prompt : prompts) {
            const std::vector<engine::RequestId> forks = m_engine.submitForks(std::move(prompt), n);
            ids.insert(ids.end(), forks.begin(), forks.end());
        }
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
        Route route{sink, {}};
        route.state.id = ids[i];
        route.state.maxTokens = limits[i / static_cast<std::size_t>(n)];
        m_routes.emplace(ids[i], std::move(route));
    }
    remember(ids);
}

void EngineHub::cancel(const std::vector<engine::RequestId> &ids)
{
    for (const engine::RequestId id : ids)
        m_engine.cancel(id);
}

void EngineHub::note(OpenRequest &state, const engine::Event &event)
{
    if (const auto *accepted = std::get_if<engine::RequestAccepted>(&event)) {
        state.accepted = true;
        state.promptTokens = accepted->promptTokens;
    } else if (const auto *token = std::get_if<engine::TokenEvent>(&event)) {
        state.decodedTokens += static_cast<int>(token->ids.size());
        state.cachedTokens = token->cachedTokens;
    }
}

void EngineHub::pump(const std::function<void(const engine::Event &)> &other)
{
    // Events are taken under the lock, so that none overtakes the routes of a submit that is going on.
    std::vector<std::pair<std::shared_ptr<EventSink>, std::vector<engine::Event>>> batches;
    std::unordered_map<EventSink *, std::size_t> places;
    std::vector<engine::Event> strangers;
    {
        const std::lock_guard lock(m_mutex);
        for (engine::Event &event : m_engine.takeEvents()) {
            const auto route = m_routes.find(engine::requestOf(event));
            if (route == m_routes.end()) {
                strangers.push_back(std::move(event));
                continue;
            }
            note(route->second.state, event);
            const std::shared_ptr<EventSink> sink = route->second.sink.lock();
            if (std::holds_alternative<engine::RequestFinished>(event))
                m_routes.erase(route);
            if (!sink)
                continue;
            const auto [place, isNew] = places.try_emplace(sink.get(), batches.size());
            if (isNew)
                batches.emplace_back(sink, std::vector<engine::Event>());
            batches[place->second].second.push_back(std::move(event));
        }
    }
    for (auto &[sink, events] : batches)
        sink->take(std::move(events));
    for (const engine::Event &event : strangers)
        other(event);
}

std::vector<OpenRequest> EngineHub::open() const
{
    std::vector<OpenRequest> requests;
    {
        const std::lock_guard lock(m_mutex);
        for (const auto &[id, route] : m_routes)
            requests.push_back(route.state);
    }
    std::ranges::sort(requests, {}, &OpenRequest::id);
    return requests;
}

} // namespace serve
