// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/tune/comparison.h"
#include "ui/tune/workload_runner.h"

#include <QElapsedTimer>
#include <QObject>

#include <optional>
#include <vector>

namespace ui {

class EngineClient;
class Settings;

/// Runs a workload on the settings before and after in turn, and keeps or reverts what was changed.
///
/// "Before" is what was asked for when the model was loaded, when the last change was kept, or at the start. Rounds go
/// before, after, after, before, and so on, after one small round that does not count; every round waits until the
/// engine has confirmed its settings. In the end those after are in force.
///
/// Thread: UI.
class Tuner : public QObject {
    Q_OBJECT
public:
    Tuner(EngineClient &client, Settings &settings, QObject *parent = nullptr);

    [[nodiscard]] const engine::EngineConfig &before() const { return m_before; }
    /// A live knob differs from before.
    [[nodiscard]] bool isChanged() const;
    [[nodiscard]] bool isRunning() const { return m_running; }

    /// Measures; where nothing is changed, the settings of now alone. What prevents it becomes fault().
    void start(const Workload &workload);
    /// Ends after the requests under way are cancelled; whole pairs of rounds count.
    void stop();
    /// The values that are asked for become "before".
    void keep();
    /// Asks for the live values of before again.
    void revert();

    /// 0..1 of the running measurement.
    [[nodiscard]] double fraction() const;
    /// "Round 3 of 10, settings after: 12 of 16 requests, about 20 s left"
    [[nodiscard]] QString progressText() const;
    /// Why the last measurement could not be made or was given up, as a sentence; empty when it was not.
    [[nodiscard]] QString fault() const { return m_fault; }
    [[nodiscard]] const std::optional<Comparison> &result() const { return m_result; }
    /// What the running measurement compares, with the rounds so far.
    [[nodiscard]] const Comparison &current() const { return m_current; }

signals:
    /// Any of the above.
    void changed();

private:
    struct Round {
        bool after = false;
        bool counts = true;
    };

    [[nodiscard]] QString obstacle(const Workload &workload) const;
    void plan(const Workload &workload);
    void next();
    void proceed();
    void take(const engine::LoadReport &report, int others, const QString &fault);
    [[nodiscard]] QString refusalOf(const engine::LoadReport &report) const;
    void noteWithoutEffect();
    void count(const engine::LoadReport &report, int others);
    void finish(const QString &fault, bool restore = true);
    void decide(Comparison::Outcome outcome, const engine::EngineConfig &chosen);
    void ask(const engine::EngineConfig &wanted);
    void settingsAsked();

    EngineClient &m_client;
    Settings &m_settings;
    WorkloadRunner m_runner;
    engine::EngineConfig m_before;
    std::optional<Comparison> m_result;
    Comparison m_current;
    std::vector<Round> m_rounds;
    std::size_t m_round = 0;
    int m_ended = 0;
    int m_failed = 0;
    bool m_others = false;
    bool m_running = false;
    bool m_asking = false;  ///< a change of settings is our own
    bool m_waiting = false; ///< for the engine to confirm the settings of the round
    QElapsedTimer m_elapsed;
    QString m_fault;
};

} // namespace ui
