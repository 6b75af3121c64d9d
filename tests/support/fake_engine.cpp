// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/fake_engine.h"

#include "engine/runtime/totals.h"

#include <algorithm>
#include <chrono>

using namespace engine;

FakeEngine::FakeEngine(FakeEngineScript script)
    : m_script(std::move(script))
{
    m_blocks.resize(std::size_t(m_script.numBlocks));
    DeviceStats cpu;
    cpu.id = "cpu";
    cpu.name = "Example processor";
    cpu.kind = "cpu";
    cpu.isa = {"avx2"};
    cpu.memoryTotalBytes = std::size_t(16) << 30;
    cpu.memoryFreeBytes = std::size_t(9) << 30;
    cpu.utilization = 0.4;
    cpu.clockMhz = 3200;
    cpu.problem = "temperature: no sensor under /sys/class/hwmon";
    m_devices = std::make_shared<const std::vector<DeviceStats>>(std::vector{cpu});
    if (m_script.stepMs > 0) {
        m_thread = std::jthread([this](std::stop_token stop) {
            const auto pause = std::chrono::duration<double, std::milli>(m_script.stepMs);
            while (!stop.stop_requested()) {
                std::this_thread::sleep_for(pause);
                step();
            }
        });
    }
}

FakeEngine::~FakeEngine()
{
    if (m_thread.joinable()) {
        m_thread.request_stop();
        m_thread.join();
    }
}

double FakeEngine::now() const
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - m_start).count();
}

void FakeEngine::pushLocked(Event event)
{
    m_wakeDue = m_wakeDue || m_events.empty();
    m_events.push_back(std::move(event));
}

// The callback runs without the lock, as it may call back; a box emptied meanwhile makes the call needless, not wrong.
void FakeEngine::wakeAndUnlock(std::unique_lock<std::mutex> &lock)
{
    if (!std::exchange(m_wakeDue, false) || !m_wake)
        return;
    ++m_wakes;
    const auto wake = m_wake;
    lock.unlock();
    wake();
}

void FakeEngine::push(Event event)
{
    std::unique_lock lock(m_mutex);
    pushLocked(std::move(event));
    wakeAndUnlock(lock);
}

void FakeEngine::loadModel(const std::string &path, const EngineConfig &config)
{
    std::unique_lock lock(m_mutex);
    for (int i = 1; i <= m_script.loadSteps; ++i)
        pushLocked(LoadProgress{double(i) / m_script.loadSteps, "weights"});
    const bool bad = path.size() > 4 && path.ends_with(".bad");
    if (bad || !m_script.loadError.empty()) {
        const std::string why = bad ? path + ": magic is 'BAD!', wanted 'GGUF'" : m_script.loadError;
        pushLocked(LoadFailed{path, ErrorCode::Refused, why});
        wakeAndUnlock(lock);
        return;
    }
    m_config = config;
    m_config.threads = config.threads > 0 ? config.threads : 4;
    m_config.maxModelLen = config.maxModelLen > 0 ? config.maxModelLen : 2048;
    m_config.kv.numBlocks = m_script.numBlocks;
    m_config.kv.budgetBytes = std::size_t(m_script.numBlocks) * std::size_t(config.kv.blockTokens) * 23040;
    m_loaded = path;
    ModelInfo info;
    info.path = path;
    info.name = "Example-135M";
    info.architecture = "llama";
    info.chatTemplate = "{{ messages }}";
    info.parameters = 134515008;
    info.fileBytes = 98u << 20;
    info.weightBytes = 96u << 20;
    info.layers = 30;
    info.vocabSize = 49152;
    info.contextLength = 2048;
    info.backend = "cpu";
    info.isa = "avx2";
    info.effective = m_config;
    m_totals.weightBytes = info.weightBytes;
    pushLocked(ModelLoaded{info});
    publishLocked();
    wakeAndUnlock(lock);
}

void FakeEngine::cancelLoad()
{
    std::unique_lock lock(m_mutex);
    ++m_loadsCancelled;
}

void FakeEngine::unloadModel()
{
    std::unique_lock lock(m_mutex);
    m_loaded.clear();
    m_map.reset();
    pushLocked(ModelUnloaded{});
    wakeAndUnlock(lock);
}

RequestId FakeEngine::submit(Request request)
{
    std::vector<Request> one;
    one.push_back(std::move(request));
    return submitAll(std::move(one)).front();
}

std::vector<RequestId> FakeEngine::submitAll(std::vector<Request> requests)
{
    std::unique_lock lock(m_mutex);
    std::vector<RequestId> ids;
    for (Request &request : requests) {
        const RequestId id = m_nextId++;
        ids.push_back(id);
        m_submitted.push_back(request);
        m_sampling[id] = request.sampling;
        if (m_loaded.empty()) {
            refuseLocked(id, ErrorCode::InvalidArgument, "no model is loaded");
            continue;
        }
        if (const int most = m_config.maxNumQueuedReqs; most > 0 && queuedLocked() > most) {
            refuseLocked(id, ErrorCode::Busy,
                         "the queue is full: " + std::to_string(queuedLocked() - 1) + " requests wait, allowed are "
                             + std::to_string(most) + " (max-num-queued-reqs)");
            continue;
        }
        const std::int64_t tokens = std::int64_t{queuedLocked()} * m_script.promptTokens;
        if (const std::int64_t most = m_config.maxNumQueuedTokens; most > 0 && tokens > most) {
            refuseLocked(id, ErrorCode::Busy,
                         "the queue is full: with this request " + std::to_string(tokens)
                             + " prompt tokens would wait, allowed are " + std::to_string(most)
                             + " (max-num-queued-tokens)");
            continue;
        }
        Running running;
        running.request = std::move(request);
        running.arrived = now();
        running.story.runningBefore = std::min(int(m_running.size()), std::max(1, m_config.limits.maxNumSeqs));
        running.story.waitingBefore = int(m_running.size()) - running.story.runningBefore;
        running.limit =
            running.request.sampling.maxTokens > 0 ? running.request.sampling.maxTokens : m_script.answerTokens;
        pushLocked(RequestAccepted{id, m_script.promptTokens, running.arrived, running.request.client});
        m_running.emplace(id, std::move(running));
    }
    wakeAndUnlock(lock);
    return ids;
}

/// Requests that would wait for a place with one more.
int FakeEngine::queuedLocked() const
{
    return std::max(0, int(m_running.size()) + 1 - std::max(1, m_config.limits.maxNumSeqs));
}

void FakeEngine::refuseLocked(RequestId id, ErrorCode code, const std::string &error)
{
    RequestFinished refused;
    refused.id = id;
    refused.reason = FinishReason::Failed;
    refused.code = code;
    refused.error = error;
    if (code == ErrorCode::Busy)
        refused.retryAfterSeconds = estimatedWaitSeconds(m_totals, queuedLocked(), int(m_running.size()));
    countFinished(m_totals, refused);
    pushLocked(std::move(refused));
}

std::vector<RequestId> FakeEngine::submitForks(Request request, int n)
{
    std::vector<Request> forks(std::size_t(std::max(n, 1)), request);
    for (std::size_t i = 0; request.sampling.seed && i < forks.size(); ++i)
        forks[i].sampling.seed = *request.sampling.seed + i;
    return submitAll(std::move(forks));
}

void FakeEngine::cancel(RequestId id)
{
    std::unique_lock lock(m_mutex);
    if (m_running.contains(id))
        finishLocked(id, FinishReason::Cancelled);
    publishLocked();
    wakeAndUnlock(lock);
}

void FakeEngine::setSampling(RequestId id, const SamplingParams &sampling)
{
    std::unique_lock lock(m_mutex);
    m_sampling[id] = sampling;
}

std::uint64_t FakeEngine::appliedLocked()
{
    const std::uint64_t revision = ++m_revision;
    pushLocked(ParametersApplied{revision, m_step + 1, m_config, m_script.applyNote});
    return revision;
}

std::uint64_t FakeEngine::setLimits(const BatchLimits &limits)
{
    std::unique_lock lock(m_mutex);
    m_config.limits = limits;
    const std::uint64_t revision = appliedLocked();
    wakeAndUnlock(lock);
    return revision;
}

std::uint64_t FakeEngine::setRules(const AdmissionRules &rules)
{
    std::unique_lock lock(m_mutex);
    static_cast<AdmissionRules &>(m_config) = rules;
    const std::uint64_t revision = appliedLocked();
    wakeAndUnlock(lock);
    return revision;
}

std::uint64_t FakeEngine::setKvPool(const KvPoolConfig &kv)
{
    std::unique_lock lock(m_mutex);
    m_config.kv = kv;
    m_config.kv.numBlocks = m_script.numBlocks;
    const std::uint64_t revision = appliedLocked();
    wakeAndUnlock(lock);
    return revision;
}

void FakeEngine::continueOn(const std::string &device)
{
    const std::lock_guard lock(m_mutex);
    m_continuedOn = device;
}

std::string FakeEngine::continuedOn() const
{
    const std::lock_guard lock(m_mutex);
    return m_continuedOn;
}

std::uint64_t FakeEngine::setThreads(int threads)
{
    std::unique_lock lock(m_mutex);
    m_config.threads = threads;
    const std::uint64_t revision = appliedLocked();
    wakeAndUnlock(lock);
    return revision;
}

std::vector<Event> FakeEngine::takeEvents()
{
    std::unique_lock lock(m_mutex);
    return std::exchange(m_events, {});
}

void FakeEngine::setWakeCallback(std::function<void()> wake)
{
    std::unique_lock lock(m_mutex);
    m_wake = std::move(wake);
}

std::vector<StepStats> FakeEngine::takeSteps()
{
    std::unique_lock lock(m_mutex);
    return std::exchange(m_steps, {});
}

EngineTotals FakeEngine::totals() const
{
    std::unique_lock lock(m_mutex);
    EngineTotals totals = m_totals;
    totals.blocksTotal = m_script.numBlocks;
    totals.blocksFree = int(std::count_if(m_blocks.begin(), m_blocks.end(),
                                          [](const BlockInfo &b) { return b.state != BlockState::Used; }));
    const int allowed = std::max(1, m_config.limits.maxNumSeqs);
    totals.running = std::min(int(m_running.size()), allowed);
    totals.waiting = int(m_running.size()) - totals.running;
    totals.waitingTokens = std::int64_t{totals.waiting} * m_script.promptTokens;
    totals.kvUsage = 1.0 - double(totals.blocksFree) / std::max(1, totals.blocksTotal);
    totals.kvBytes = m_config.kv.budgetBytes;
    totals.memory.weights = totals.weightBytes;
    totals.memory.kvUsed = std::size_t(double(totals.kvBytes) * totals.kvUsage);
    totals.memory.kvFree = totals.kvBytes - totals.memory.kvUsed;
    return totals;
}

void FakeEngine::watch(Topic topic, bool on)
{
    std::unique_lock lock(m_mutex);
    if (on)
        m_watched.insert(topic);
    else
        m_watched.erase(topic);
    publishLocked();
}

std::shared_ptr<const BlockMap> FakeEngine::blockMap() const
{
    std::unique_lock lock(m_mutex);
    return m_map;
}

std::shared_ptr<const std::vector<DeviceStats>> FakeEngine::devices() const
{
    std::unique_lock lock(m_mutex);
    return m_watched.contains(Topic::Devices) ? m_devices : nullptr;
}

std::string FakeEngine::blockText(int block)
{
    std::unique_lock lock(m_mutex);
    if (block < 0 || std::size_t(block) >= m_blocks.size() || m_blocks[std::size_t(block)].state == BlockState::Free)
        return {};
    return "text of block " + std::to_string(block);
}

std::string FakeEngine::nextPiece(const std::string &text, std::size_t &at)
{
    const std::size_t begin = at;
    at = std::min(text.find(' ', begin + 1), text.size());
    return text.substr(begin, at - begin);
}

// Reasoning first, then the answer again and again; a call of a tool, in two parts, ends it.
void FakeEngine::fillLocked(TokenEvent &event, Running &running) const
{
    if (running.reasoningAt < m_script.reasoning.size()) {
        event.reasoning = nextPiece(m_script.reasoning, running.reasoningAt);
        return;
    }
    event.text = nextPiece(m_script.answer, running.textAt);
    if (running.textAt >= m_script.answer.size())
        running.textAt = 0;
    if (running.generated + 1 == running.limit && !m_script.toolCall.name.empty())
        event.toolCalls = {{0, m_script.toolCall.name, ""}, {0, "", m_script.toolCall.arguments}};
}

// Takes free or cached blocks until the context fits; a full pool just stops growing, as the fake never preempts.
void FakeEngine::growLocked(RequestId id, Running &running)
{
    const int blockTokens = std::max(1, m_config.kv.blockTokens);
    const int context = running.prefilled + running.generated;
    while (int(running.blocks.size()) * blockTokens < context) {
        auto it = std::find_if(m_blocks.begin(), m_blocks.end(),
                               [](const BlockInfo &b) { return b.state == BlockState::Free; });
        if (it == m_blocks.end())
            it = std::find_if(m_blocks.begin(), m_blocks.end(),
                              [](const BlockInfo &b) { return b.state == BlockState::Cached; });
        if (it == m_blocks.end())
            return;
        const int first = int(running.blocks.size()) * blockTokens;
        *it = BlockInfo{BlockState::Used, id, first == 0 && m_running.size() > 1 ? 2 : 1, 0, first};
        running.blocks.push_back(int(it - m_blocks.begin()));
    }
    for (const int block : running.blocks) {
        BlockInfo &info = m_blocks[std::size_t(block)];
        info.tokens = std::clamp(context - info.firstPosition, 0, blockTokens);
    }
}

StepRow FakeEngine::advanceLocked(RequestId id, Running &running, StepStats &stats)
{
    StepRow row;
    row.request = id;
    row.promptTokens = m_script.promptTokens;
    if (std::exchange(running.waits, false)) {
        const double begin = stats.time - stats.duration;
        running.admitted = running.admitted < 0 ? std::max(begin, running.arrived) : running.admitted;
        stats.admitted.push_back(id);
        stats.admittedCached.push_back(m_script.cachedTokens);
    }
    ++running.story.steps;
    const int missing = m_script.promptTokens - running.prefilled;
    if (missing > 0) {
        row.prefillTokens = std::min(missing, m_script.prefillPerStep);
        running.prefilled += row.prefillTokens;
    } else {
        row.decodeTokens = 1;
    }
    if (running.prefilled >= m_script.promptTokens) {
        TokenEvent event;
        event.id = id;
        fillLocked(event, running);
        event.ids = {running.generated};
        event.cachedTokens = m_script.cachedTokens;
        if (++running.generated == 1) {
            running.firstToken = stats.time;
            stats.ttftMs.push_back((stats.time - running.arrived) * 1000);
            stats.ttftRequests.push_back(id);
            stats.answeredPromptTokens += m_script.promptTokens;
            m_totals.prefixQueryTokens += std::uint64_t(m_script.promptTokens);
            m_totals.prefixHitTokens += std::uint64_t(m_script.cachedTokens);
        } else {
            stats.itlMs.push_back((stats.time - running.lastToken) * 1000);
            stats.itlRequests.push_back(id);
        }
        running.lastToken = stats.time;
        pushLocked(std::move(event));
    }
    growLocked(id, running);
    row.contextTokens = running.prefilled + running.generated;
    stats.prefillTokens += row.prefillTokens;
    stats.decodeTokens += row.decodeTokens;
    return row;
}

void FakeEngine::step()
{
    std::unique_lock lock(m_mutex);
    if (m_running.empty())
        return;
    StepStats stats;
    stats.step = ++m_step;
    stats.time = now();
    stats.duration = m_script.stepMs > 0 ? m_script.stepMs / 1000 : 0.01;
    std::vector<RequestId> ids;
    for (const auto &[id, running] : m_running)
        ids.push_back(id);
    stats.preempted = std::exchange(m_preempted, {});
    const std::size_t allowed = std::min(ids.size(), std::size_t(std::max(1, m_config.limits.maxNumSeqs)));
    for (std::size_t i = 0; i < allowed; ++i) {
        const auto it = m_running.find(ids[i]);
        if (it != m_running.end())
            stats.rows.push_back(advanceLocked(ids[i], it->second, stats));
    }
    stats.running = int(allowed);
    stats.waiting = int(ids.size() - allowed);
    stats.maxNumSeqs = m_config.limits.maxNumSeqs;
    stats.maxNumBatchedTokens = m_config.limits.maxNumBatchedTokens;
    stats.blocksTotal = m_script.numBlocks;
    for (const BlockInfo &block : m_blocks) {
        stats.blocksUsed += block.state == BlockState::Used;
        stats.blocksCached += block.state == BlockState::Cached;
        if (block.state == BlockState::Used)
            stats.kvSlotsEmpty += m_config.kv.blockTokens - block.tokens;
    }
    stats.kvSlots = std::int64_t{stats.blocksUsed} * m_config.kv.blockTokens;
    countStep(m_totals, stats);
    m_steps.push_back(std::move(stats));
    for (const RequestId id : ids) {
        const auto it = m_running.find(id);
        if (it != m_running.end() && it->second.generated >= it->second.limit)
            finishLocked(id, FinishReason::Length);
    }
    publishLocked();
    wakeAndUnlock(lock);
}

void FakeEngine::preempt(RequestId id)
{
    const std::unique_lock lock(m_mutex);
    const auto it = m_running.find(id);
    if (it == m_running.end())
        return;
    Running &running = it->second;
    for (const int block : std::exchange(running.blocks, {}))
        m_blocks[std::size_t(block)] = {};
    running.story.recomputedTokens += running.prefilled;
    running.prefilled = 0;
    running.waits = true;
    ++running.preemptions;
    m_preempted.push_back(id);
}

void FakeEngine::finishLocked(RequestId id, FinishReason reason)
{
    const Running running = std::move(m_running.at(id));
    m_running.erase(id);
    for (const int block : running.blocks) {
        BlockInfo &info = m_blocks[std::size_t(block)];
        info = BlockInfo{BlockState::Cached, id, 0, info.tokens, info.firstPosition};
    }
    RequestFinished event;
    event.id = id;
    event.reason = reason;
    event.usage = {m_script.promptTokens, running.generated, m_script.cachedTokens, m_script.cachedTokens,
                   running.preemptions};
    event.story = running.story;
    event.timings.queueMs = ((running.admitted < 0 ? now() : running.admitted) - running.arrived) * 1000;
    event.timings.ttftMs = (running.firstToken - running.arrived) * 1000;
    event.timings.e2eMs = (running.lastToken - running.arrived) * 1000;
    if (running.generated > 1) {
        event.timings.tpotMs = (running.lastToken - running.firstToken) * 1000 / (running.generated - 1);
        event.timings.tokensPerSecond = event.timings.tpotMs > 0 ? 1000 / event.timings.tpotMs : 0;
    }
    event.timings.prefillMs = std::max(0.0, event.timings.ttftMs - event.timings.queueMs);
    event.timings.decodeMs = event.timings.e2eMs - event.timings.ttftMs;
    countFinished(m_totals, event);
    pushLocked(std::move(event));
}

void FakeEngine::publishLocked()
{
    if (!m_watched.contains(Topic::Blocks) || m_loaded.empty()) {
        m_map.reset();
        return;
    }
    m_map = std::make_shared<const BlockMap>(BlockMap{m_step, m_config.kv.blockTokens, 0, 0, m_blocks});
}

void FakeEngine::setDevices(std::vector<DeviceStats> devices)
{
    std::unique_lock lock(m_mutex);
    m_devices = std::make_shared<const std::vector<DeviceStats>>(std::move(devices));
}

bool FakeEngine::isWatched(Topic topic) const
{
    std::unique_lock lock(m_mutex);
    return m_watched.contains(topic);
}

std::vector<Request> FakeEngine::submitted() const
{
    std::unique_lock lock(m_mutex);
    return m_submitted;
}

std::map<RequestId, SamplingParams> FakeEngine::lastSampling() const
{
    std::unique_lock lock(m_mutex);
    return m_sampling;
}

EngineConfig FakeEngine::config() const
{
    std::unique_lock lock(m_mutex);
    return m_config;
}

int FakeEngine::wakes() const
{
    std::unique_lock lock(m_mutex);
    return m_wakes;
}

int FakeEngine::loadsCancelled() const
{
    std::unique_lock lock(m_mutex);
    return m_loadsCancelled;
}
