// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/engine.h"

#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <thread>

/// What a FakeEngine does; tests fill it in.
struct FakeEngineScript {
    std::string answer = "A block is a page of the cache. "; ///< repeated, one word or space-led piece per token
    std::string reasoning{};     ///< thought before the answer, once, in pieces as the answer
    engine::ToolCall toolCall{}; ///< made with the last token, when it has a name
    int promptTokens = 24;
    int cachedTokens = 16;
    int answerTokens = 64;    ///< of a request without maxTokens
    int prefillPerStep = 512; ///< tokens of one prompt in one step
    double stepMs = 0;        ///< > 0: an own thread makes a step that often; 0: only step() does
    int numBlocks = 96;
    int loadSteps = 4;       ///< LoadProgress events of a load
    std::string loadError{}; ///< when not empty, loads fail with it
    std::string applyNote{}; ///< note of every ParametersApplied
};

/// An engine without a model: scripted tokens, steps, block maps and devices behind the real interface.
///
/// A path that ends in ".bad" fails to load with a sentence that names it. Thread: any, as the interface says.
class FakeEngine final : public engine::Engine {
public:
    explicit FakeEngine(FakeEngineScript script = {});
    ~FakeEngine() override;

    void loadModel(const std::string &path, const engine::EngineConfig &config) override;
    void cancelLoad() override;
    void unloadModel() override;
    engine::RequestId submit(engine::Request request) override;
    std::vector<engine::RequestId> submitAll(std::vector<engine::Request> requests) override;
    std::vector<engine::RequestId> submitForks(engine::Request request, int n) override;
    void cancel(engine::RequestId id) override;
    void setSampling(engine::RequestId id, const engine::SamplingParams &sampling) override;
    std::uint64_t setLimits(const engine::BatchLimits &limits) override;
    std::uint64_t setRules(const engine::AdmissionRules &rules) override;
    std::uint64_t setKvPool(const engine::KvPoolConfig &kv) override;
    std::uint64_t setThreads(int threads) override;
    void continueOn(const std::string &device) override;
    std::vector<engine::Event> takeEvents() override;
    void setWakeCallback(std::function<void()> wake) override;
    std::vector<engine::StepStats> takeSteps() override;
    engine::EngineTotals totals() const override;
    void watch(engine::Topic topic, bool on) override;
    std::shared_ptr<const engine::BlockMap> blockMap() const override;
    std::shared_ptr<const std::vector<engine::DeviceStats>> devices() const override;
    std::string blockText(int block) override;

    /// Works through one step: at most one prefill chunk or one token per request, then block map and devices.
    void step();
    /// Takes a request's blocks from it: it reads its prompt again from the next step on.
    void preempt(engine::RequestId id);
    /// Pushes an event as it is, for events that nothing else makes.
    void push(engine::Event event);
    /// Replaces the reading that devices() returns.
    void setDevices(std::vector<engine::DeviceStats> devices);

    [[nodiscard]] bool isWatched(engine::Topic topic) const;
    [[nodiscard]] std::vector<engine::Request> submitted() const;
    [[nodiscard]] std::map<engine::RequestId, engine::SamplingParams> lastSampling() const;
    [[nodiscard]] engine::EngineConfig config() const;
    [[nodiscard]] int wakes() const;
    [[nodiscard]] int loadsCancelled() const;
    [[nodiscard]] std::string continuedOn() const; ///< the last one

private:
    struct Running {
        engine::Request request;
        int prefilled = 0;
        int generated = 0;
        int limit = 0;
        std::size_t textAt = 0;
        std::size_t reasoningAt = 0;
        double arrived = 0;
        double admitted = -1; ///< begin of its first step
        bool waits = true;    ///< for blocks, at first or after preempt()
        engine::RequestStory story;
        int preemptions = 0;
        double firstToken = 0;
        double lastToken = 0;
        std::vector<int> blocks;
    };

    void refuseLocked(engine::RequestId id, engine::ErrorCode code, const std::string &error);
    [[nodiscard]] int queuedLocked() const;
    void pushLocked(engine::Event event);
    void wakeAndUnlock(std::unique_lock<std::mutex> &lock);
    void finishLocked(engine::RequestId id, engine::FinishReason reason);
    engine::StepRow advanceLocked(engine::RequestId id, Running &running, engine::StepStats &stats);
    void growLocked(engine::RequestId id, Running &running);
    std::uint64_t appliedLocked();
    void publishLocked();
    [[nodiscard]] double now() const;
    static std::string nextPiece(const std::string &text, std::size_t &at);
    void fillLocked(engine::TokenEvent &event, Running &running) const;

    FakeEngineScript m_script;
    mutable std::mutex m_mutex;
    std::function<void()> m_wake;
    std::string m_continuedOn;
    std::vector<engine::Event> m_events;
    std::vector<engine::StepStats> m_steps;
    std::vector<engine::RequestId> m_preempted; // since the step before
    std::map<engine::RequestId, Running> m_running;
    std::vector<engine::Request> m_submitted;
    std::map<engine::RequestId, engine::SamplingParams> m_sampling;
    std::set<engine::Topic> m_watched;
    std::vector<engine::BlockInfo> m_blocks;
    std::shared_ptr<const engine::BlockMap> m_map;
    std::shared_ptr<const std::vector<engine::DeviceStats>> m_devices;
    engine::EngineConfig m_config;
    engine::EngineTotals m_totals;
    std::string m_loaded;
    engine::RequestId m_nextId = 1;
    std::uint64_t m_revision = 0;
    std::uint64_t m_step = 0;
    bool m_wakeDue = false;
    int m_wakes = 0;
    int m_loadsCancelled = 0;
    std::chrono::steady_clock::time_point m_start = std::chrono::steady_clock::now();
    std::jthread m_thread; // last: stops before anything it uses goes
};
