// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/engine.h"

#include <QHash>
#include <QList>
#include <QObject>
#include <QSet>
#include <QString>

#include <array>
#include <memory>
#include <optional>
#include <vector>

class QThread;
class QTimer;

namespace ui {

/// The groups of engine settings that are applied, and answered, as one.
enum class EngineSetting { Limits, KvPool, Threads, Rules };

/// The only object of the window that knows the engine: turns calls into commands and events into signals.
///
/// Events cross threads by one queued call however many there are; a drain groups the text of a request into one
/// `textAppended`. Steps, the block map and devices are polled 30 times a second, and only while someone asked for
/// them. Every call returns at once.
///
/// Thread: UI.
class EngineClient : public QObject {
    Q_OBJECT
public:
    /// \pre engine is not null
    explicit EngineClient(std::unique_ptr<engine::Engine> engine, QObject *parent = nullptr);
    ~EngineClient() override;

    // The model
    /// Loads with config(); answers with loadProgress and then modelLoaded or loadFailed.
    void loadModel(const QString &path);
    void cancelLoad();
    void unloadModel();
    [[nodiscard]] bool isLoading() const { return !m_loadingPath.isEmpty(); }
    [[nodiscard]] QString loadingPath() const { return m_loadingPath; }
    /// The loaded model with its effective values, or nothing.
    [[nodiscard]] const std::optional<engine::ModelInfo> &model() const { return m_model; }

    // Requests
    /// Fills nothing in: sampling is the caller's, usually sampling(). Answers arrive later, never inside the call.
    quint64 submit(engine::Request request);
    /// A request of a measurement: it keeps the sampling it has whatever setSampling() is told, and cancelAll() leaves
    /// it to its owner.
    quint64 submitFixed(engine::Request request);
    QList<quint64> submitAll(std::vector<engine::Request> requests);
    void cancel(quint64 id);
    void cancelAll();
    /// Running and waiting requests, those of the server's clients included: they share the engine, and the views show
    /// them all. What this object is told to change or to cancel never touches theirs.
    [[nodiscard]] int activeRequests() const { return int(m_active.size() + m_guests.size()); }
    [[nodiscard]] bool isActive(quint64 id) const { return m_active.contains(id) || m_guests.contains(id); }

    /// Whether it runs or waits for a client of the server.
    [[nodiscard]] bool isGuest(quint64 id) const { return m_guests.contains(id); }

    /// The colour of a request in every view: the least used series at its submission. Kept after its end.
    [[nodiscard]] int seriesOf(quint64 id) const;
    /// What the dashboards call it beside its number, for example the title of its chat. Requests of one `group`, as of
    /// one chat, are added up under their last name.
    void setRequestName(quint64 id, const QString &name, const QString &group = {});
    [[nodiscard]] QString requestName(quint64 id) const;  ///< empty when never set
    [[nodiscard]] QString requestGroup(quint64 id) const; ///< empty when never set

    // Parameters
    /// Defaults of new requests, shared by the chat page and the panels: what is in force, always within the ranges of
    /// the parameter table.
    [[nodiscard]] const engine::SamplingParams &sampling() const { return m_sampling; }
    /// What setSampling() was given; it differs from sampling() where a value was out of range.
    [[nodiscard]] const engine::SamplingParams &requestedSampling() const { return m_requestedSampling; }
    /// Sets the defaults and replaces the sampling of every running request, keeping each one's own seed, stop
    /// strings and logprobs.
    void setSampling(const engine::SamplingParams &sampling);
    void setRequestSampling(quint64 id, const engine::SamplingParams &sampling);
    /// Requested values, used by the next load; effective ones are in model()->effective.
    [[nodiscard]] const engine::EngineConfig &config() const { return m_config; }
    void setConfig(const engine::EngineConfig &config); ///< before the first load, from the settings
    /// Without a model these only become part of config() and return 0.
    quint64 setLimits(const engine::BatchLimits &limits);
    quint64 setKvPool(const engine::KvPoolConfig &kv);
    quint64 setThreads(int threads);
    /// After the device was lost: requests go on on this one.
    void continueOn(const QString &device);
    quint64 setRules(const engine::AdmissionRules &rules);
    /// Asked for and not yet answered by parametersApplied.
    [[nodiscard]] bool isPending(EngineSetting setting) const { return m_pending[int(setting)] != 0; }
    /// Why the effective value differs from the requested one, from the last answer; empty when it does not.
    [[nodiscard]] QString note(EngineSetting setting) const { return m_notes[int(setting)]; }

    // Live figures
    /// One more or one fewer viewer of the steps, of the block map or of the devices; views call it when shown and
    /// hidden. Steps are also polled while requests run, for the status line.
    void watchSteps(bool on);
    void watchBlocks(bool on);
    void watchDevices(bool on);
    /// Emits the steps made so far instead of at the next poll: those of every request that has ended are in it.
    void takeSteps();
    [[nodiscard]] engine::EngineTotals totals() const;
    /// Asks for one block's text off this thread; answers with blockTextReady.
    void requestBlockText(int block);

signals:
    void loadStarted(const QString &path);
    void loadProgress(double fraction, const QString &stage);
    void modelLoaded(const engine::ModelInfo &info);
    /// The model loaded before stays; `cancelled` when it was asked for.
    void loadFailed(const QString &path, const QString &message, bool cancelled);
    void modelUnloaded();
    void modelFileChanged(const QString &path, const QString &what);

    void requestSubmitted(quint64 id);
    void requestAccepted(quint64 id, int promptTokens);
    /// The same, whole; also of requests that the server's clients made.
    void requestTaken(const engine::RequestAccepted &accepted);
    /// New text of one request, without reasoning and tool calls; comes with every new token. `tokens` is how many it
    /// is made of, `cachedTokens` how much of the prompt was cached.
    void textAppended(quint64 id, const QString &text, int tokens, int cachedTokens);
    /// What a model that marks its reasoning thought; before the textAppended of the same tokens.
    void reasoningAppended(quint64 id, const QString &text);
    /// What it adds to its calls of tools; after the textAppended of the same tokens.
    void toolCallsAppended(quint64 id, const std::vector<engine::ToolCallDelta> &calls);
    void tokensSampled(quint64 id, const std::vector<engine::SampledToken> &tokens); ///< only with logprobs
    /// All its steps have been told of by stepsTaken before.
    void requestFinished(quint64 id, const engine::RequestFinished &result);

    void samplingChanged();
    /// The engine refused new sampling of a running request, which goes on with what it has.
    void samplingRefused(quint64 id, const QString &message);
    void parametersRequested(quint64 revision);
    void parametersApplied(const engine::ParametersApplied &applied);
    void noticed(const engine::EngineNotice &notice);

    void stepsTaken(const std::vector<engine::StepStats> &steps);
    void blockMapChanged(const std::shared_ptr<const engine::BlockMap> &map);
    void devicesRead(const std::shared_ptr<const std::vector<engine::DeviceStats>> &devices);
    void blockTextReady(int block, const QString &text);

private:
    struct TextGroup;
    class Drain;

    void drain();
    void poll();
    void updatePolling();
    void registerRequest(quint64 id, const engine::SamplingParams &sampling);
    void rememberRequest(quint64 id);
    void takeAccepted(const engine::RequestAccepted &accepted);
    void takeModel(const engine::ModelInfo &info);
    void takeLoadFailure(const engine::LoadFailed &failure);
    void takeApplied(const engine::ParametersApplied &applied);
    quint64 requested(EngineSetting setting, quint64 revision);
    [[nodiscard]] int leastUsedSeries() const;

    std::unique_ptr<engine::Engine> m_engine;
    QThread *m_blockThread = nullptr; ///< asks for block texts, which may wait for a step
    QObject *m_blockReader = nullptr; ///< lives in m_blockThread
    QTimer *m_poll = nullptr;
    std::optional<engine::ModelInfo> m_model;
    engine::EngineConfig m_config;
    engine::EngineConfig m_loadingConfig; ///< as handed to the running load
    engine::SamplingParams m_sampling;
    engine::SamplingParams m_requestedSampling;
    QString m_loadingPath;
    QHash<quint64, engine::SamplingParams> m_active; ///< running and waiting requests
    QSet<quint64> m_fixed;                           ///< those of them from submitFixed()
    QHash<quint64, int> m_series;
    QSet<quint64> m_guests; ///< running and waiting ones of the server's clients
    struct Name {
        QString name;
        QString group;
    };
    QHash<quint64, Name> m_names;
    QList<quint64> m_order; ///< ids with a series, oldest first, so that the tables stay bounded
    std::array<quint64, 4> m_pending{};
    std::array<QString, 4> m_notes;
    int m_stepViewers = 0;
    int m_blockViewers = 0;
    int m_deviceViewers = 0;
    std::shared_ptr<const engine::BlockMap> m_lastMap;
    std::shared_ptr<const std::vector<engine::DeviceStats>> m_lastDevices;
};

} // namespace ui
