// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/local_engine.h"

#include <algorithm>
#include <utility>

namespace engine {

namespace {

/// Accepts a pending command of the same kind, but none from before a load: that one was for another model.
template<typename One> auto pendingSince(const One & /*kind*/)
{
    return [blocked = false](const Command &pending) mutable {
        blocked =
            blocked || std::holds_alternative<LoadCommand>(pending) || std::holds_alternative<UnloadCommand>(pending);
        return !blocked && std::holds_alternative<One>(pending);
    };
}

} // namespace

LocalEngine::LocalEngine(ModelLoader loader, DeviceWatcher::Reader readDevices, EngineGuard::Sensor sensor,
                         std::chrono::milliseconds sensorPeriod, EngineProbes probes)
    : m_devices(std::move(readDevices))
    , m_guard(m_shared, std::move(sensor), sensorPeriod)
    , m_thread([this, loader = std::move(loader), probes = std::move(probes)](const std::stop_token &stop) mutable {
        EngineLoop(m_shared, std::move(loader), std::move(probes)).run(stop);
    })
{
}

LocalEngine::~LocalEngine()
{
    m_thread.request_stop();
    cancelLoad();
    m_thread.join();
}

void LocalEngine::loadModel(const std::string &path, const EngineConfig &config)
{
    const std::lock_guard lock(m_loadMutex);
    m_loadStop.request_stop(); // a load that is still under way is of no use any more
    m_loadStop = std::stop_source();
    m_shared.commands.push(LoadCommand{path, config, m_loadStop.get_token()});
}

void LocalEngine::cancelLoad()
{
    const std::lock_guard lock(m_loadMutex);
    m_loadStop.request_stop();
}

void LocalEngine::unloadModel()
{
    m_shared.commands.push(UnloadCommand{});
}

RequestId LocalEngine::submit(Request request)
{
    std::vector<Request> one;
    one.push_back(std::move(request));
    return submitAll(std::move(one)).front();
}

std::vector<RequestId> LocalEngine::submitAll(std::vector<Request> requests)
{
    return push(std::move(requests), false);
}

std::vector<RequestId> LocalEngine::push(std::vector<Request> requests, bool forks)
{
    SubmitCommand command;
    command.forks = forks;
    std::vector<RequestId> ids;
    for (Request &request : requests) {
        ids.push_back(m_nextId++);
        command.submissions.push_back({ids.back(), std::move(request), m_shared.clock.now()});
    }
    m_shared.commands.push(std::move(command));
    return ids;
}

std::vector<RequestId> LocalEngine::submitForks(Request request, int n)
{
    std::vector<Request> forks(static_cast<std::size_t>(std::max(n, 1)), request);
    for (std::size_t i = 0; request.sampling.seed && i < forks.size(); ++i)
        forks[i].sampling.seed = *request.sampling.seed + i;
    return push(std::move(forks), true);
}

void LocalEngine::cancel(RequestId id)
{
    m_shared.commands.push(CancelCommand{id});
}

void LocalEngine::setSampling(RequestId id, const SamplingParams &sampling)
{
    m_shared.commands.replaceOrPush(SamplingCommand{id, sampling}, [id](const Command &pending) {
        const auto *same = std::get_if<SamplingCommand>(&pending);
        return same && same->id == id;
    });
}

template<typename One> std::uint64_t LocalEngine::replace(One command)
{
    command.revision = m_nextRevision++;
    m_shared.commands.replaceOrPush(Command(command), pendingSince(command));
    return command.revision;
}

std::uint64_t LocalEngine::setLimits(const BatchLimits &limits)
{
    return replace(LimitsCommand{0, limits});
}

std::uint64_t LocalEngine::setRules(const AdmissionRules &rules)
{
    return replace(RulesCommand{0, rules});
}

std::uint64_t LocalEngine::setKvPool(const KvPoolConfig &kv)
{
    return replace(KvPoolCommand{0, kv});
}

std::uint64_t LocalEngine::setThreads(int threads)
{
    return replace(ThreadsCommand{0, threads});
}

void LocalEngine::continueOn(const std::string &device)
{
    m_shared.commands.push(ContinueCommand{device});
}

std::vector<Event> LocalEngine::takeEvents()
{
    return m_shared.events.takeAll();
}

void LocalEngine::setWakeCallback(std::function<void()> wake)
{
    m_shared.events.setWakeCallback(std::move(wake));
    m_shared.commands.push(NudgeCommand{}); // events may be pending already
}

std::vector<StepStats> LocalEngine::takeSteps()
{
    return m_shared.steps.takeAll();
}

EngineTotals LocalEngine::totals() const
{
    return m_shared.state.totals();
}

void LocalEngine::watch(Topic topic, bool on)
{
    if (topic == Topic::Devices) {
        m_devices.watch(on);
        return;
    }
    m_shared.watchBlocks = on;
    m_shared.commands.push(NudgeCommand{});
}

std::shared_ptr<const BlockMap> LocalEngine::blockMap() const
{
    return m_shared.state.blockMap();
}

std::shared_ptr<const std::vector<DeviceStats>> LocalEngine::devices() const
{
    return m_devices.newest();
}

std::string LocalEngine::blockText(int block)
{
    return m_shared.state.blockText(block);
}

} // namespace engine
