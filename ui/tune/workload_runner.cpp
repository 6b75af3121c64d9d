// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/tune/workload_runner.h"

#include "engine/lab/load_workload.h"
#include "engine/lab/relay_load_target.h"
#include "ui/engine_client.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace ui {

namespace {

engine::LengthRange around(int mean)
{
    return {std::max(1, mean / 2), mean + mean / 2};
}

engine::RandomWorkload randomOf(const Workload &workload, int requests, int variant, int vocabSize)
{
    return {requests,
            around(workload.promptTokens),
            around(workload.outputTokens),
            workload.sharedPrefix,
            vocabSize,
            std::uint64_t(workload.seed),
            variant};
}

} // namespace

WorkloadRunner::WorkloadRunner(EngineClient &client, QObject *parent)
    : QObject(parent)
    , m_client(client)
{
    connect(&client, &EngineClient::stepsTaken, this, [this](const std::vector<engine::StepStats> &steps) {
        if (m_target)
            m_target->stepped(steps);
    });
    connect(&client, &EngineClient::requestFinished, this, [this](quint64 id, const engine::RequestFinished &result) {
        if (!m_target || !m_open.remove(id))
            return;
        m_client.takeSteps(); // those of its last tokens
        m_target->finished(result);
    });
}

WorkloadRunner::~WorkloadRunner()
{
    leave();
}

void WorkloadRunner::start(const Workload &workload, int requests, int variant)
{
    leave();
    const int run = ++m_run;
    engine::RelayLoadTarget::Owner owner;
    owner.submit = [this, run](std::size_t index, engine::Request request) {
        QMetaObject::invokeMethod(
            this,
            [this, run, index, request = std::move(request)]() mutable { submit(run, index, std::move(request)); },
            Qt::QueuedConnection);
    };
    owner.cancelAll = [this, run] {
        QMetaObject::invokeMethod(this, [this, run] { cancelAll(run); }, Qt::QueuedConnection);
    };
    m_client.watchSteps(true);
    m_client.takeSteps(); // steps made before are not of this run
    m_target = std::make_shared<engine::RelayLoadTarget>(std::move(owner));
    const engine::RandomWorkload random = randomOf(workload, requests, variant, m_client.model()->vocabSize);
    const engine::LoadOptions options{workload.clients, 0, {}, std::uint64_t(workload.seed)};
    m_thread = std::jthread([this, run, random, options, target = m_target](const std::stop_token &stop) {
        engine::LoadReport report;
        QString fault;
        try {
            int seen = 0;
            const auto onProgress = [&](int ended) {
                if (ended != std::exchange(seen, ended))
                    QMetaObject::invokeMethod(this, [this, run, ended] { tell(run, ended); }, Qt::QueuedConnection);
            };
            report = engine::runLoad(*target, engine::makeRandomRequests(random), options, stop, onProgress);
        } catch (const std::exception &error) {
            fault = QString::fromUtf8(error.what());
        }
        QMetaObject::invokeMethod(
            this, [this, run, report, others = target->others(), fault] { take(run, report, others, fault); },
            Qt::QueuedConnection);
    });
}

void WorkloadRunner::stop()
{
    m_thread.request_stop();
}

void WorkloadRunner::submit(int run, std::size_t index, engine::Request request)
{
    if (run != m_run || !m_target)
        return;
    request.client = "workload";
    const quint64 id = m_client.submitFixed(std::move(request));
    m_client.setRequestName(id, tr("workload"));
    m_open.insert(id);
    m_target->submitted(index, id);
}

void WorkloadRunner::cancelAll(int run)
{
    for (const quint64 id : run == m_run ? m_open : QSet<quint64>())
        m_client.cancel(id);
}

void WorkloadRunner::tell(int run, int ended)
{
    if (run == m_run && m_target)
        emit progressed(ended);
}

void WorkloadRunner::take(int run, const engine::LoadReport &report, int others, const QString &fault)
{
    if (run != m_run || !m_target)
        return;
    leave();
    emit finished(report, others, fault);
}

void WorkloadRunner::leave()
{
    if (!m_target)
        return;
    m_thread.request_stop();
    m_target->abandon();
    m_thread.join();
    for (const quint64 id : std::exchange(m_open, {}))
        m_client.cancel(id);
    m_target.reset();
    m_client.watchSteps(false);
}

} // namespace ui
