// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/lab/load_report.h"
#include "ui/tune/workload.h"

#include <QObject>
#include <QSet>

#include <memory>
#include <thread>

namespace engine {
class RelayLoadTarget;
struct Request;
} // namespace engine

namespace ui {

class EngineClient;

/// One run of the load generator on the engine of this window, beside whatever else runs there.
///
/// The generator has a thread of its own. Its requests go through EngineClient, so that every view shows them, and what
/// comes back is passed on to it; nothing here waits, except the destructor for the generator's next look at its box.
///
/// Thread: UI.
class WorkloadRunner : public QObject {
    Q_OBJECT
public:
    explicit WorkloadRunner(EngineClient &client, QObject *parent = nullptr);
    ~WorkloadRunner() override;

    /// Sends `requests` of the workload; every `variant` has tokens of its own. Ends the run before, if there is one.
    /// \pre a model is loaded
    void start(const Workload &workload, int requests, int variant);
    /// Cancels its requests; finished() comes all the same.
    void stop();
    [[nodiscard]] bool isRunning() const { return m_target != nullptr; }

signals:
    /// So many requests have ended.
    void progressed(int ended);
    /// `others` requests of others had a share in its steps. `fault` is empty unless the generator itself failed.
    void finished(const engine::LoadReport &report, int others, const QString &fault);

private:
    void submit(int run, std::size_t index, engine::Request request);
    void cancelAll(int run);
    void tell(int run, int ended);
    void take(int run, const engine::LoadReport &report, int others, const QString &fault);
    void leave();

    EngineClient &m_client;
    std::shared_ptr<engine::RelayLoadTarget> m_target; ///< of the current run, or null
    QSet<quint64> m_open;
    int m_run = 0; ///< tells what an older run left behind
    std::jthread m_thread;
};

} // namespace ui
