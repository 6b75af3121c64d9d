// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/lab/request_runner.h"

#include <chrono>
#include <unordered_map>
#include <utility>

namespace engine {
namespace {

/// How often a waiting call looks at its stop token.
constexpr double StopPoll = 0.05; // seconds

/// The requests of one run() call by engine id.
class OpenRequests {
public:
    explicit OpenRequests(const std::vector<RequestId> &ids)
        : m_results(ids.size())
        , m_open(ids.size())
    {
        for (std::size_t i = 0; i < ids.size(); ++i)
            m_places.emplace(ids[i], i);
    }

    [[nodiscard]] std::size_t open() const { return m_open; }

    /// False when the event belongs to none of them.
    bool take(const Event &event, const RequestRunner::OnText &onText, const RequestRunner::OnFinished &onFinished)
    {
        if (const auto *token = std::get_if<TokenEvent>(&event))
            return append(*token, onText);
        if (const auto *finished = std::get_if<RequestFinished>(&event))
            return finish(*finished, onFinished);
        return std::holds_alternative<RequestAccepted>(event);
    }

private:
    bool append(const TokenEvent &token, const RequestRunner::OnText &onText)
    {
        const auto place = m_places.find(token.id);
        if (place == m_places.end())
            return false;
        RequestResult &result = m_results[place->second];
        result.text += token.text;
        result.reasoning += token.reasoning;
        appendToolCalls(result.toolCalls, token.toolCalls);
        result.ids.insert(result.ids.end(), token.ids.begin(), token.ids.end());
        result.logprobs.insert(result.logprobs.end(), token.logprobs.begin(), token.logprobs.end());
        if (onText)
            onText(place->second, token);
        return true;
    }

    bool finish(const RequestFinished &finished, const RequestRunner::OnFinished &onFinished)
    {
        const auto place = m_places.find(finished.id);
        if (place == m_places.end())
            return false;
        m_results[place->second].finished = finished;
        --m_open;
        if (onFinished)
            onFinished(place->second, m_results[place->second]);
        return true;
    }

    std::unordered_map<RequestId, std::size_t> m_places;
    std::vector<RequestResult> m_results;
    std::size_t m_open;
};

} // namespace

RequestRunner::RequestRunner(Engine &engine)
    : m_engine(engine)
{
    m_engine.setWakeCallback([this] {
        const std::lock_guard lock(m_mutex);
        m_wake = true;
        m_ready.notify_one();
    });
}

RequestRunner::~RequestRunner()
{
    m_engine.setWakeCallback({});
}

std::vector<Event> RequestRunner::waitForEvents(double seconds)
{
    std::unique_lock lock(m_mutex);
    m_ready.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return m_wake; });
    m_wake = false;
    lock.unlock();
    return m_engine.takeEvents();
}

ModelInfo RequestRunner::load(const std::string &path, const EngineConfig &config, std::stop_token stop,
                              const std::function<void(const LoadProgress &)> &onProgress)
{
    m_engine.loadModel(path, config);
    bool cancelled = false;
    while (true) {
        if (stop.stop_requested() && !std::exchange(cancelled, true))
            m_engine.cancelLoad();
        for (const Event &event : waitForEvents(StopPoll)) {
            if (const auto *progress = std::get_if<LoadProgress>(&event)) {
                if (onProgress)
                    onProgress(*progress);
            } else if (const auto *failed = std::get_if<LoadFailed>(&event)) {
                throw Error(failed->code, failed->message);
            } else if (const auto *loaded = std::get_if<ModelLoaded>(&event)) {
                return loaded->info;
            } else if (m_onOther) {
                m_onOther(event);
            }
        }
    }
}

void RequestRunner::run(std::vector<Request> requests, std::stop_token stop, const OnText &onText,
                        const OnFinished &onFinished)
{
    const std::vector<RequestId> ids = m_engine.submitAll(std::move(requests));
    OpenRequests open(ids);
    bool cancelled = false;
    while (open.open() > 0) {
        if (stop.stop_requested() && !std::exchange(cancelled, true))
            for (const RequestId id : ids)
                m_engine.cancel(id);
        for (const Event &event : waitForEvents(StopPoll))
            if (!open.take(event, onText, onFinished) && m_onOther)
                m_onOther(event);
    }
}

} // namespace engine
