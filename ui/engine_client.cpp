// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/engine_client.h"

#include "ui/parameters.h"

#include <QThread>
#include <QTimer>

#include <algorithm>
#include <utility>

namespace ui {

namespace {

constexpr int pollMs = 33; // 30 times a second, the most the window repaints
constexpr int seriesCount = 8;
constexpr qsizetype rememberedRequests = 4096;

} // namespace

/// New text of one request within one drain.
struct EngineClient::TextGroup {
    quint64 id = 0;
    std::string text{};
    std::string reasoning{};
    std::vector<engine::ToolCallDelta> toolCalls{};
    int tokens = 0;
    int cachedTokens = 0;
    std::vector<engine::SampledToken> sampled{};
};

/// Handles the events of one drain in order; text waits until its request's next other event or the end.
class EngineClient::Drain {
public:
    explicit Drain(EngineClient &client)
        : m_client(client)
    {
    }

    void operator()(const engine::LoadProgress &e)
    {
        emit m_client.loadProgress(e.fraction, QString::fromStdString(e.stage));
    }
    void operator()(const engine::ModelLoaded &e)
    {
        flushAll();
        m_client.takeModel(e.info);
    }
    void operator()(const engine::LoadFailed &e) { m_client.takeLoadFailure(e); }
    void operator()(const engine::ModelUnloaded &)
    {
        flushAll();
        m_client.m_model.reset();
        emit m_client.modelUnloaded();
    }
    void operator()(const engine::ModelFileChanged &e)
    {
        qInfo("model file changed: %s: %s", e.path.c_str(), e.what.c_str());
        emit m_client.modelFileChanged(QString::fromStdString(e.path), QString::fromStdString(e.what));
    }
    void operator()(const engine::RequestAccepted &e) { m_client.takeAccepted(e); }
    void operator()(engine::TokenEvent &e)
    {
        TextGroup &group = groupOf(e.id);
        group.text += e.text;
        group.reasoning += e.reasoning;
        std::move(e.toolCalls.begin(), e.toolCalls.end(), std::back_inserter(group.toolCalls));
        group.tokens += int(e.ids.size());
        group.cachedTokens = std::max(group.cachedTokens, e.cachedTokens);
        std::move(e.logprobs.begin(), e.logprobs.end(), std::back_inserter(group.sampled));
    }
    void operator()(const engine::SamplingRefused &e)
    {
        qInfo("sampling of request %llu refused: %s", static_cast<unsigned long long>(e.id), e.message.c_str());
        emit m_client.samplingRefused(e.id, QString::fromStdString(e.message));
    }
    void operator()(const engine::RequestFinished &e)
    {
        const auto it =
            std::find_if(m_groups.begin(), m_groups.end(), [&](const TextGroup &g) { return g.id == e.id; });
        if (it != m_groups.end()) {
            const TextGroup group = std::move(*it);
            m_groups.erase(it);
            send(group);
        }
        if (e.reason == engine::FinishReason::Failed)
            qInfo("request %llu failed: %s", static_cast<unsigned long long>(e.id), e.error.c_str());
        m_client.takeSteps();
        m_client.m_active.remove(e.id);
        m_client.m_guests.remove(e.id);
        m_client.m_fixed.remove(e.id);
        m_client.updatePolling();
        emit m_client.requestFinished(e.id, e);
    }
    void operator()(const engine::ParametersApplied &e) { m_client.takeApplied(e); }
    void operator()(const engine::EngineNotice &e)
    {
        qWarning("%s", e.message.c_str());
        emit m_client.noticed(e);
    }

    void flushAll()
    {
        for (const TextGroup &group : std::exchange(m_groups, {}))
            send(group);
    }

private:
    TextGroup &groupOf(quint64 id)
    {
        for (TextGroup &group : m_groups) {
            if (group.id == id)
                return group;
        }
        m_groups.push_back({.id = id});
        return m_groups.back();
    }

    void send(const TextGroup &group)
    {
        if (!group.reasoning.empty())
            emit m_client.reasoningAppended(group.id, QString::fromStdString(group.reasoning));
        emit m_client.textAppended(group.id, QString::fromStdString(group.text), group.tokens, group.cachedTokens);
        if (!group.toolCalls.empty())
            emit m_client.toolCallsAppended(group.id, group.toolCalls);
        if (!group.sampled.empty())
            emit m_client.tokensSampled(group.id, group.sampled);
    }

    EngineClient &m_client;
    std::vector<TextGroup> m_groups; // few: at most the running requests
};

EngineClient::EngineClient(std::unique_ptr<engine::Engine> engine, QObject *parent)
    : QObject(parent)
    , m_engine(std::move(engine))
    , m_blockThread(new QThread(this))
    , m_blockReader(new QObject)
    , m_poll(new QTimer(this))
{
    m_poll->setInterval(pollMs);
    connect(m_poll, &QTimer::timeout, this, &EngineClient::poll);
    m_blockThread->setObjectName(QStringLiteral("block texts"));
    m_blockReader->moveToThread(m_blockThread);
    connect(m_blockThread, &QThread::finished, m_blockReader, &QObject::deleteLater);
    m_blockThread->start(QThread::LowPriority);
    m_engine->setWakeCallback([this] { QMetaObject::invokeMethod(this, &EngineClient::drain, Qt::QueuedConnection); });
    QMetaObject::invokeMethod(this, &EngineClient::drain, Qt::QueuedConnection); // events from before the callback
}

// The reader may wait for the engine and the engine calls back into this: both end before any member does.
EngineClient::~EngineClient()
{
    m_blockThread->quit();
    m_blockThread->wait();
    m_engine.reset();
}

void EngineClient::loadModel(const QString &path)
{
    m_loadingPath = path;
    m_loadingConfig = m_config;
    qInfo("loading %s", qPrintable(path));
    m_engine->loadModel(path.toStdString(), m_config);
    emit loadStarted(path);
}

void EngineClient::cancelLoad()
{
    if (isLoading())
        m_engine->cancelLoad();
}

void EngineClient::unloadModel()
{
    m_engine->unloadModel();
}

quint64 EngineClient::submit(engine::Request request)
{
    const engine::SamplingParams sampling = request.sampling;
    const quint64 id = m_engine->submit(std::move(request));
    registerRequest(id, sampling);
    return id;
}

quint64 EngineClient::submitFixed(engine::Request request)
{
    const quint64 id = submit(std::move(request));
    m_fixed.insert(id);
    return id;
}

QList<quint64> EngineClient::submitAll(std::vector<engine::Request> requests)
{
    std::vector<engine::SamplingParams> samplings;
    for (const engine::Request &request : requests)
        samplings.push_back(request.sampling);
    const std::vector<engine::RequestId> ids = m_engine->submitAll(std::move(requests));
    QList<quint64> result;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        registerRequest(ids[i], samplings[i]);
        result.append(ids[i]);
    }
    return result;
}

void EngineClient::registerRequest(quint64 id, const engine::SamplingParams &sampling)
{
    rememberRequest(id);
    m_active.insert(id, sampling);
    updatePolling();
    emit requestSubmitted(id);
}

void EngineClient::rememberRequest(quint64 id)
{
    m_series.insert(id, leastUsedSeries());
    m_order.append(id);
    for (qsizetype i = 0; m_order.size() > rememberedRequests && i < m_order.size();) {
        if (isActive(m_order[i])) {
            ++i;
            continue;
        }
        const quint64 old = m_order.takeAt(i);
        m_series.remove(old);
        m_names.remove(old);
    }
}

// One that nobody here submitted is of a client of the server.
void EngineClient::takeAccepted(const engine::RequestAccepted &accepted)
{
    if (!m_active.contains(accepted.id)) {
        rememberRequest(accepted.id);
        m_guests.insert(accepted.id);
        const QString name = QString::fromStdString(accepted.client);
        setRequestName(accepted.id, name, QStringLiteral("client ") + name);
        updatePolling();
    }
    emit requestAccepted(accepted.id, accepted.promptTokens);
    emit requestTaken(accepted);
}

void EngineClient::cancel(quint64 id)
{
    m_engine->cancel(id);
}

void EngineClient::cancelAll()
{
    for (const quint64 id : m_active.keys()) {
        if (!m_fixed.contains(id))
            m_engine->cancel(id);
    }
}

// Among the series that the fewest active requests have, the one after the last one given, so that neighbours differ.
int EngineClient::leastUsedSeries() const
{
    std::array<int, seriesCount> used{};
    for (auto it = m_active.keyBegin(); it != m_active.keyEnd(); ++it)
        ++used[std::size_t(seriesOf(*it))];
    for (const quint64 id : m_guests)
        ++used[std::size_t(seriesOf(id))];
    const int start = m_order.isEmpty() ? 0 : (seriesOf(m_order.constLast()) + 1) % seriesCount;
    int best = start;
    for (int i = 1; i < seriesCount; ++i) {
        const int candidate = (start + i) % seriesCount;
        if (used[std::size_t(candidate)] < used[std::size_t(best)])
            best = candidate;
    }
    return best;
}

int EngineClient::seriesOf(quint64 id) const
{
    return m_series.value(id, int(id % seriesCount));
}

void EngineClient::setRequestName(quint64 id, const QString &name, const QString &group)
{
    m_names.insert(id, {name, group});
}

QString EngineClient::requestName(quint64 id) const
{
    return m_names.value(id).name;
}

QString EngineClient::requestGroup(quint64 id) const
{
    return m_names.value(id).group;
}

void EngineClient::setSampling(const engine::SamplingParams &sampling)
{
    if (sampling == m_requestedSampling)
        return;
    m_requestedSampling = sampling;
    m_sampling = allowedSampling(sampling);
    for (const quint64 id : m_active.keys()) {
        if (m_fixed.contains(id))
            continue;
        const engine::SamplingParams &own = m_active[id];
        engine::SamplingParams changed = m_sampling;
        changed.seed = own.seed;
        changed.stop = own.stop;
        changed.logprobs = own.logprobs;
        setRequestSampling(id, changed);
    }
    emit samplingChanged();
}

void EngineClient::setRequestSampling(quint64 id, const engine::SamplingParams &sampling)
{
    if (!m_active.contains(id))
        return;
    m_active[id] = sampling;
    m_engine->setSampling(id, sampling);
}

void EngineClient::setConfig(const engine::EngineConfig &config)
{
    m_config = config;
}

quint64 EngineClient::setLimits(const engine::BatchLimits &limits)
{
    m_config.limits = limits;
    return requested(EngineSetting::Limits, m_model ? m_engine->setLimits(limits) : 0);
}

quint64 EngineClient::setKvPool(const engine::KvPoolConfig &kv)
{
    m_config.kv = kv;
    return requested(EngineSetting::KvPool, m_model ? m_engine->setKvPool(kv) : 0);
}

void EngineClient::continueOn(const QString &device)
{
    m_engine->continueOn(device.toStdString());
}

quint64 EngineClient::setThreads(int threads)
{
    m_config.threads = threads;
    return requested(EngineSetting::Threads, m_model ? m_engine->setThreads(threads) : 0);
}

quint64 EngineClient::setRules(const engine::AdmissionRules &rules)
{
    static_cast<engine::AdmissionRules &>(m_config) = rules;
    return requested(EngineSetting::Rules, m_model ? m_engine->setRules(rules) : 0);
}

quint64 EngineClient::requested(EngineSetting setting, quint64 revision)
{
    m_pending[std::size_t(setting)] = revision;
    m_notes[std::size_t(setting)].clear();
    emit parametersRequested(revision);
    return revision;
}

void EngineClient::takeModel(const engine::ModelInfo &info)
{
    m_loadingPath.clear();
    m_model = info;
    qInfo("loaded %s: %s, %s on %s, %d threads, %d KV blocks of %d tokens, context %d", info.path.c_str(),
          info.architecture.c_str(), info.isa.c_str(), info.backend.c_str(), info.effective.threads,
          info.effective.kv.numBlocks, info.effective.kv.blockTokens, info.effective.maxModelLen);
    m_pending.fill(0);
    m_notes.fill({});
    emit modelLoaded(info);
    // Knobs moved while it was loading are not part of the load.
    if (m_config.limits != m_loadingConfig.limits)
        setLimits(m_config.limits);
    if (m_config.kv != m_loadingConfig.kv)
        setKvPool(m_config.kv);
    if (m_config.threads != m_loadingConfig.threads)
        setThreads(m_config.threads);
    const engine::AdmissionRules rules = m_config;
    if (rules != static_cast<const engine::AdmissionRules &>(m_loadingConfig))
        setRules(rules);
}

void EngineClient::takeLoadFailure(const engine::LoadFailed &failure)
{
    const QString path = QString::fromStdString(failure.path);
    qInfo("not loaded: %s", failure.message.c_str());
    if (path == m_loadingPath)
        m_loadingPath.clear();
    emit loadFailed(path, QString::fromStdString(failure.message), failure.code == engine::ErrorCode::Cancelled);
}

void EngineClient::takeApplied(const engine::ParametersApplied &applied)
{
    for (std::size_t i = 0; i < m_pending.size(); ++i) {
        if (m_pending[i] != 0 && m_pending[i] == applied.revision) {
            m_pending[i] = 0;
            m_notes[i] = QString::fromStdString(applied.note);
        }
    }
    if (m_model)
        m_model->effective = applied.effective;
    emit parametersApplied(applied);
}

void EngineClient::watchSteps(bool on)
{
    m_stepViewers += on ? 1 : -1;
    updatePolling();
}

void EngineClient::watchBlocks(bool on)
{
    m_blockViewers += on ? 1 : -1;
    if (m_blockViewers == (on ? 1 : 0))
        m_engine->watch(engine::Topic::Blocks, on);
    updatePolling();
}

void EngineClient::watchDevices(bool on)
{
    m_deviceViewers += on ? 1 : -1;
    if (m_deviceViewers == (on ? 1 : 0))
        m_engine->watch(engine::Topic::Devices, on);
    updatePolling();
}

engine::EngineTotals EngineClient::totals() const
{
    return m_engine->totals();
}

void EngineClient::requestBlockText(int block)
{
    QMetaObject::invokeMethod(m_blockReader, [this, block] {
        const QString text = QString::fromStdString(m_engine->blockText(block));
        QMetaObject::invokeMethod(
            this, [this, block, text] { emit blockTextReady(block, text); }, Qt::QueuedConnection);
    });
}

void EngineClient::updatePolling()
{
    const bool wanted = m_stepViewers + m_blockViewers + m_deviceViewers > 0 || activeRequests() > 0;
    if (wanted == m_poll->isActive())
        return;
    if (wanted)
        m_poll->start();
    else {
        poll(); // the last steps of the request that just ended
        m_poll->stop();
    }
}

void EngineClient::takeSteps()
{
    if (const std::vector<engine::StepStats> steps = m_engine->takeSteps(); !steps.empty())
        emit stepsTaken(steps);
}

void EngineClient::poll()
{
    takeSteps();
    if (m_blockViewers > 0) {
        if (auto map = m_engine->blockMap(); map != m_lastMap) {
            m_lastMap = std::move(map);
            emit blockMapChanged(m_lastMap);
        }
    }
    if (m_deviceViewers > 0) {
        if (auto devices = m_engine->devices(); devices != m_lastDevices) {
            m_lastDevices = std::move(devices);
            emit devicesRead(m_lastDevices);
        }
    }
}

void EngineClient::drain()
{
    std::vector<engine::Event> events = m_engine->takeEvents();
    Drain handler(*this);
    for (engine::Event &event : events)
        std::visit(handler, event);
    handler.flushAll();
}

} // namespace ui
