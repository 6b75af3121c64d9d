// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/runtime/local_engine.h"
#include "tests/support/engine_driver.h"
#include "tests/support/fake_served_model.h"

#include <QtGlobal>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

/// An engine on the fake model, for tests of the serving loop.
namespace engine_fixture {

using namespace engine;

inline SamplingParams greedy(int maxTokens)
{
    SamplingParams params;
    params.temperature = 0;
    params.maxTokens = maxTokens;
    params.ignoreEos = true;
    return params;
}

inline Request ask(std::vector<int> ids, const SamplingParams &sampling)
{
    Request request;
    request.ids = std::move(ids);
    request.sampling = sampling;
    return request;
}

inline std::vector<int> promptOf(int length, int salt)
{
    std::vector<int> ids(static_cast<std::size_t>(length));
    for (int i = 0; i < length; ++i)
        ids[static_cast<std::size_t>(i)] = (i * 5 + salt * 11 + i * salt) % FakeTokenizer::size;
    return ids;
}

/// Holds the engine thread where a test wants it.
class Gate {
public:
    void pass()
    {
        std::unique_lock lock(m_mutex);
        ++m_arrived;
        m_changed.notify_all();
        m_changed.wait(lock, [this] { return m_open; });
    }
    void open()
    {
        const std::lock_guard lock(m_mutex);
        m_open = true;
        m_changed.notify_all();
    }
    bool waitForArrival()
    {
        std::unique_lock lock(m_mutex);
        return m_changed.wait_for(lock, std::chrono::seconds(30), [this] { return m_arrived > 0; });
    }

private:
    std::mutex m_mutex;
    std::condition_variable m_changed;
    bool m_open = false;
    int m_arrived = 0;
};

/// An engine on the fake model and what came out of it.
struct Fixture {
    FakeControls controls;
    LocalEngine engine{FakeServedModel::loader(controls), [] { return std::vector<DeviceStats>(1); }};
    EngineDriver driver{engine};
    FakeModel reference{FakeTokenizer::size};

    [[nodiscard]] std::vector<int> expected(const std::vector<int> &prompt, const SamplingParams &sampling,
                                            int contextLimit = 256) const
    {
        return reference.alone(prompt, sampling, sampling.seed.value_or(0), sampling.maxTokens, contextLimit,
                               sampling.ignoreEos ? -1 : FakeTokenizer::endId);
    }
    EngineDriver::Answer &answer(RequestId id) { return driver.answers[id]; }
    EngineDriver::Answer &run(Request request)
    {
        const RequestId id = engine.submit(std::move(request));
        if (!driver.finish({id}))
            qFatal("a request does not end");
        return answer(id);
    }
    [[nodiscard]] bool allBlocksFree() const { return engine.totals().blocksFree == engine.totals().blocksTotal; }
};

} // namespace engine_fixture
