// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/engine.h"
#include "engine/runtime/device_watcher.h"
#include "engine/runtime/engine_guard.h"
#include "engine/runtime/local_engine_loop.h"
#include "engine/runtime/local_engine_shared.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace engine {

/// The engine of this process: calls become commands to one thread, whose answers come back as events.
/// Thread: any.
class LocalEngine final : public Engine {
public:
    /// `sensor` may be empty: no thermal rule then. It is read every `sensorPeriod` while there is work.
    LocalEngine(ModelLoader loader, DeviceWatcher::Reader readDevices, EngineGuard::Sensor sensor = {},
                std::chrono::milliseconds sensorPeriod = std::chrono::seconds(1), EngineProbes probes = {});
    /// Stops between two steps, or between two tensors of a load.
    ~LocalEngine() override;

    void loadModel(const std::string &path, const EngineConfig &config) override;
    void cancelLoad() override;
    void unloadModel() override;
    RequestId submit(Request request) override;
    std::vector<RequestId> submitAll(std::vector<Request> requests) override;
    std::vector<RequestId> submitForks(Request request, int n) override;
    void cancel(RequestId id) override;
    void setSampling(RequestId id, const SamplingParams &sampling) override;
    std::uint64_t setLimits(const BatchLimits &limits) override;
    std::uint64_t setRules(const AdmissionRules &rules) override;
    std::uint64_t setKvPool(const KvPoolConfig &kv) override;
    std::uint64_t setThreads(int threads) override;
    void continueOn(const std::string &device) override;
    [[nodiscard]] std::vector<Event> takeEvents() override;
    void setWakeCallback(std::function<void()> wake) override;
    [[nodiscard]] std::vector<StepStats> takeSteps() override;
    [[nodiscard]] EngineTotals totals() const override;
    void watch(Topic topic, bool on) override;
    [[nodiscard]] std::shared_ptr<const BlockMap> blockMap() const override;
    [[nodiscard]] std::shared_ptr<const std::vector<DeviceStats>> devices() const override;
    [[nodiscard]] std::string blockText(int block) override;

private:
    std::vector<RequestId> push(std::vector<Request> requests, bool forks);
    template<typename One> std::uint64_t replace(One command);

    EngineShared m_shared;
    DeviceWatcher m_devices;
    std::atomic<RequestId> m_nextId = 1;
    std::atomic<std::uint64_t> m_nextRevision = 1;
    std::mutex m_loadMutex;
    std::stop_source m_loadStop; // of the newest load; guarded by m_loadMutex
    EngineGuard m_guard;
    std::jthread m_thread; // last: it uses all of the above until it is joined
};

} // namespace engine
