// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/engine.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

/// Collects an engine's events for tests, sorted by request.
class EngineDriver {
public:
    /// How long an engine may say nothing: under a sanitizer a step of an emulated device takes many seconds.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    static constexpr std::chrono::seconds patience{240};
#else
    static constexpr std::chrono::seconds patience{60};
#endif

    struct Answer {
        int promptTokens = -1;
        std::string text;
        std::vector<int> ids;
        std::vector<engine::SampledToken> logprobs;
        std::optional<engine::RequestFinished> finished;
        int events = 0;
        bool ordered = true; ///< accepted first, finished last and once
    };

    explicit EngineDriver(engine::Engine &engine)
        : m_engine(engine)
    {
    }

    /// Whether there were events.
    bool take()
    {
        std::vector<engine::Event> events = m_engine.takeEvents();
        for (engine::Event &event : events)
            std::visit([this](auto &one) { note(one); }, event);
        return !events.empty();
    }

    /// Takes events until `done` holds; false once there was none for `limit`. Only time in which this thread looked
    /// counts: where the machine is busy or the program was stopped, the engine got as little of it.
    bool until(const std::function<bool()> &done, std::chrono::seconds limit = patience)
    {
        using Clock = std::chrono::steady_clock;
        constexpr Clock::duration longestLook = std::chrono::milliseconds(10);
        Clock::duration silent{0};
        for (Clock::time_point last = Clock::now(); silent <= limit;) {
            if (take())
                silent = Clock::duration::zero();
            if (done())
                return true;
            std::this_thread::sleep_for(std::chrono::microseconds(200));
            const Clock::time_point now = Clock::now();
            silent += std::min(now - last, longestLook);
            last = now;
        }
        return false;
    }

    bool load(const std::string &path, const engine::EngineConfig &config = {})
    {
        const std::size_t before = loaded.size() + failed.size();
        m_engine.loadModel(path, config);
        return until([&] { return loaded.size() + failed.size() > before; }) && failed.empty();
    }

    bool finish(const std::vector<engine::RequestId> &ids)
    {
        return until([&] {
            for (const engine::RequestId id : ids)
                if (!answers[id].finished)
                    return false;
            return true;
        });
    }

    std::map<engine::RequestId, Answer> answers;
    std::vector<engine::ModelInfo> loaded;
    std::vector<engine::LoadFailed> failed;
    std::vector<engine::ParametersApplied> applied;
    std::vector<engine::ModelFileChanged> changed;
    std::vector<engine::SamplingRefused> refused;
    std::vector<engine::LoadProgress> progress;
    std::vector<engine::EngineNotice> notices;
    int unloaded = 0;

private:
    void note(engine::LoadProgress &e) { progress.push_back(e); }
    void note(engine::ModelLoaded &e) { loaded.push_back(e.info); }
    void note(engine::LoadFailed &e) { failed.push_back(e); }
    void note(engine::ModelUnloaded & /*e*/) { ++unloaded; }
    void note(engine::ModelFileChanged &e) { changed.push_back(e); }
    void note(engine::ParametersApplied &e) { applied.push_back(e); }
    void note(engine::EngineNotice &e) { notices.push_back(e); }
    void note(engine::RequestAccepted &e)
    {
        Answer &answer = answers[e.id];
        answer.ordered = answer.ordered && answer.events++ == 0;
        answer.promptTokens = e.promptTokens;
    }
    void note(engine::TokenEvent &e)
    {
        Answer &answer = answers[e.id];
        answer.ordered = answer.ordered && answer.events++ > 0 && !answer.finished;
        answer.text += e.text;
        answer.ids.insert(answer.ids.end(), e.ids.begin(), e.ids.end());
        answer.logprobs.insert(answer.logprobs.end(), e.logprobs.begin(), e.logprobs.end());
    }
    void note(engine::SamplingRefused &e) { refused.push_back(e); }
    void note(engine::RequestFinished &e)
    {
        Answer &answer = answers[e.id];
        answer.ordered = answer.ordered && !answer.finished;
        answer.finished = e;
    }

    engine::Engine &m_engine;
};
