// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/tune/tuner.h"

#include "ui/engine_client.h"
#include "ui/format.h"
#include "ui/parameters.h"
#include "ui/settings.h"
#include "ui/tune/live_settings.h"
#include "ui/widgets/knob_slider.h"

#include <algorithm>
#include <utility>

namespace ui {

Tuner::Tuner(EngineClient &client, Settings &settings, QObject *parent)
    : QObject(parent)
    , m_client(client)
    , m_settings(settings)
    , m_runner(client)
    , m_before(client.config())
{
    connect(&client, &EngineClient::modelLoaded, this, [this] {
        if (m_running)
            finish(tr("Another model was loaded; the measurement was given up."));
        m_before = m_client.config();
        emit changed();
    });
    connect(&client, &EngineClient::modelUnloaded, this, [this] {
        if (m_running)
            finish(tr("The model was unloaded; the measurement was given up."));
        emit changed();
    });
    connect(&client, &EngineClient::parametersRequested, this, &Tuner::settingsAsked);
    connect(&client, &EngineClient::parametersApplied, this, [this] {
        proceed();
        emit changed();
    });
    connect(&client, &EngineClient::noticed, this, [this](const engine::EngineNotice &notice) {
        if (m_running)
            m_current.notes << format::sentence(QString::fromStdString(notice.message));
    });
    connect(&m_runner, &WorkloadRunner::progressed, this, [this](int ended) {
        m_ended = ended;
        emit changed();
    });
    connect(&m_runner, &WorkloadRunner::finished, this, &Tuner::take);
}

bool Tuner::isChanged() const
{
    return !liveDifferences(m_before, m_client.config()).empty();
}

QString Tuner::obstacle(const Workload &workload) const
{
    if (m_client.isLoading())
        return tr("A model is being loaded; run the workload when it is there.");
    if (!m_client.model())
        return tr("No model is loaded; open one on the Models page, then run the workload.");
    return workloadFault(workload, *m_client.model());
}

void Tuner::start(const Workload &workload)
{
    if (m_running)
        return;
    m_fault = obstacle(workload);
    if (m_fault.isEmpty()) {
        plan(workload);
        m_running = true;
        m_elapsed.start();
        next();
    }
    emit changed();
}

void Tuner::plan(const Workload &workload)
{
    const engine::ModelInfo &model = *m_client.model();
    m_current = {};
    m_current.workload = workload;
    m_current.model = format::modelName(QString::fromStdString(model.path));
    m_current.machine = tr("%1, %2").arg(QString::fromStdString(model.backend), QString::fromStdString(model.isa));
    m_current.time = QDateTime::currentDateTime();
    m_current.paired = isChanged();
    m_current.before = m_current.paired ? m_before : m_client.config();
    m_current.after = m_client.config();
    m_rounds = {{false, false}};
    for (int i = 0; i < workload.rounds; ++i) {
        m_rounds.push_back({m_current.paired && i % 2 == 1, true});
        if (m_current.paired)
            m_rounds.push_back({i % 2 == 0, true}); // what drifts meets both sides as often first as last
    }
    m_round = 0;
    m_ended = m_failed = 0;
    m_others = false;
}

void Tuner::ask(const engine::EngineConfig &wanted)
{
    m_asking = true;
    requestLive(m_client, wanted);
    m_asking = false;
}

void Tuner::next()
{
    if (m_round == m_rounds.size()) {
        finish({});
        return;
    }
    m_ended = 0;
    m_waiting = true;
    ask(m_rounds[m_round].after ? m_current.after : m_current.before);
    proceed();
}

void Tuner::proceed()
{
    if (!m_running || !m_waiting || isAnyPending(m_client))
        return;
    m_waiting = false;
    const Round &round = m_rounds[m_round];
    (round.after ? m_current.effectiveAfter : m_current.effectiveBefore) = m_client.model()->effective;
    const Workload &workload = m_current.workload;
    m_runner.start(workload, round.counts ? workload.requests : std::min(workload.requests, workload.clients),
                   int(m_round));
}

// A change by anybody else: its result would be neither that of before nor that of after.
void Tuner::settingsAsked()
{
    if (m_running && !m_asking)
        finish(tr("A setting was changed while the workload ran; the measurement was given up."), false);
    emit changed();
}

void Tuner::take(const engine::LoadReport &report, int others, const QString &fault)
{
    if (!m_running || m_waiting) // while a round waits for its settings, what ends is one that was stopped
        return;
    if (!fault.isEmpty() || report.completed == 0) {
        finish(fault.isEmpty() ? refusalOf(report) : tr("The workload could not be sent: %1").arg(fault));
        return;
    }
    if (report.cancelled > 0) {
        finish(tr("Requests of the workload were cancelled; the measurement was given up."));
        return;
    }
    if (m_rounds[m_round].counts)
        count(report, others);
    ++m_round;
    next();
    emit changed();
}

QString Tuner::refusalOf(const engine::LoadReport &report) const
{
    if (report.failed > 0)
        return tr("All requests of the workload failed: %1")
            .arg(format::sentence(QString::fromStdString(report.firstError)));
    if (report.rejected > 0)
        return tr("All requests of the workload were refused: %1")
            .arg(format::sentence(QString::fromStdString(report.firstRefusal)));
    return tr("All requests of the workload were cancelled; the measurement was given up.");
}

void Tuner::count(const engine::LoadReport &report, int others)
{
    auto &rounds = m_rounds[m_round].after ? m_current.roundsAfter : m_current.roundsBefore;
    rounds.push_back(report);
    rounds.back().serving.itlMs = {}; // summed up already
    if (report.failed > 0 && m_failed == 0)
        m_current.notes << tr("%1 of %2 requests of a round failed, the first one with: %3")
                               .arg(format::count(report.failed), format::count(m_current.workload.requests),
                                    format::sentence(QString::fromStdString(report.firstError)));
    m_failed += report.failed;
    if (others > 0 && !std::exchange(m_others, true))
        m_current.notes << tr("Other requests ran beside the workload.");
}

void Tuner::stop()
{
    if (m_running)
        finish(tr("The measurement was stopped."));
}

void Tuner::finish(const QString &fault, bool restore)
{
    m_running = false;
    m_waiting = false;
    m_runner.stop();
    m_fault = fault;
    if (restore)
        ask(m_current.after);
    const std::size_t pairs = m_current.paired ? std::min(m_current.roundsBefore.size(), m_current.roundsAfter.size())
                                               : m_current.roundsBefore.size();
    if (pairs > 0) {
        m_current.roundsBefore.resize(pairs);
        m_current.roundsAfter.resize(m_current.paired ? pairs : 0);
        noteWithoutEffect();
        if (!fault.isEmpty())
            m_current.notes << tr("%1 %2 of %3 rounds count.")
                                   .arg(fault, format::count(qint64(pairs)), format::count(m_current.workload.rounds));
        m_result = std::move(m_current);
    }
    m_current = {};
    emit changed();
}

/// A knob can ask for something else and come to the same.
void Tuner::noteWithoutEffect()
{
    if (!m_current.paired)
        return;
    for (const engine::ParameterSpec *spec : liveDifferences(m_current.before, m_current.after)) {
        const auto before = parameterValue(m_current.effectiveBefore, spec->key);
        if (before && before == parameterValue(m_current.effectiveAfter, spec->key))
            m_current.notes << tr("%1: in force was %2 before and after.")
                                   .arg(QString::fromUtf8(spec->label.data(), qsizetype(spec->label.size())),
                                        KnobSlider::textOf(*spec, *before));
    }
}

void Tuner::keep()
{
    if (m_running)
        return;
    m_before = m_client.config();
    decide(Comparison::Outcome::Kept, m_result ? m_result->after : m_before);
    emit changed();
}

void Tuner::revert()
{
    if (m_running)
        return;
    ask(m_before);
    m_settings.setEngineConfig(m_client.config());
    decide(Comparison::Outcome::Reverted, m_result ? m_result->before : m_before);
    emit changed();
}

/// The comparison on show is decided when what is in force now is the side of it that was chosen.
void Tuner::decide(Comparison::Outcome outcome, const engine::EngineConfig &chosen)
{
    if (m_result && m_result->paired && m_result->outcome == Comparison::Outcome::Open
        && liveDifferences(chosen, m_client.config()).empty())
        m_result->outcome = outcome;
}

double Tuner::fraction() const
{
    if (!m_running || m_rounds.empty())
        return 0;
    const double within = double(m_ended) / std::max(1, m_current.workload.requests);
    return std::min(1.0, (double(m_round) + within) / double(m_rounds.size()));
}

QString Tuner::progressText() const
{
    if (!m_running)
        return {};
    const Round &round = m_rounds[std::min(m_round, m_rounds.size() - 1)];
    if (!round.counts)
        return tr("Warming up: a round that does not count");
    QString text = m_current.paired ? (round.after ? tr("Round %1 of %2, settings after: %3 of %4 requests")
                                                   : tr("Round %1 of %2, settings before: %3 of %4 requests"))
                                    : tr("Round %1 of %2: %3 of %4 requests");
    text = text.arg(format::count(qint64(m_round)), format::count(qint64(m_rounds.size() - 1)), format::count(m_ended),
                    format::count(m_current.workload.requests));
    const double done = fraction();
    const double left = done > 0 ? double(m_elapsed.elapsed()) / 1000 * (1 - done) / done : 0;
    if (m_round >= 2)
        text = tr("%1, about %2 s left").arg(text, format::count(qint64(left) + 1));
    return text;
}

} // namespace ui
