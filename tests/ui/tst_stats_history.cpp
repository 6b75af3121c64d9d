// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/fake_engine.h"
#include "ui/engine_client.h"
#include "ui/stats_history.h"
#include "ui/tune/gap_card.h"

#include <QTest>

#include <cmath>
#include <numeric>

using ui::EngineClient;
using ui::StatsHistory;

namespace {

engine::StepStats stepAt(double time, double duration, int decode, int prefill)
{
    static std::uint64_t number = 0;
    engine::StepStats step;
    step.step = ++number;
    step.time = time;
    step.duration = duration;
    step.decodeTokens = decode;
    step.prefillTokens = prefill;
    step.running = 1;
    return step;
}

engine::StepRow row(quint64 id, int prefill, int decode)
{
    engine::StepRow r;
    r.request = id;
    r.prefillTokens = prefill;
    r.decodeTokens = decode;
    return r;
}

double sum(const std::vector<float> &values)
{
    return std::accumulate(values.begin(), values.end(), 0.0);
}

} // namespace

class TestStatsHistory : public QObject {
    Q_OBJECT
private slots:
    void init()
    {
        m_client = std::make_unique<EngineClient>(std::make_unique<FakeEngine>());
        m_history = std::make_unique<StatsHistory>(*m_client);
    }

    void cleanup()
    {
        m_history.reset();
        m_client.reset();
    }

    void nothingYet()
    {
        QCOMPARE(m_history->now(), 0.0);
        QVERIFY(!m_history->lastStep());
        QCOMPARE(sum(m_history->series(StatsHistory::Figure::DecodeRate, 60)), 0.0);
        QVERIFY(std::isnan(m_history->timeToFirstToken().p95));
        QVERIFY(!m_history->activeWithin(60));
    }

    // The area under the curve is the number of tokens, however steps and bins lie.
    void noTokenIsLostOrDoubled()
    {
        std::vector<engine::StepStats> steps;
        for (int i = 1; i <= 100; ++i)
            steps.push_back(stepAt(10 + i * 0.137, 0.1, 3, i == 40 ? 900 : 0));
        steps.push_back(stepAt(31, 0.001, 0, 0)); // so that all bins before are full
        emit m_client->stepsTaken(steps);
        const double decode = sum(m_history->series(StatsHistory::Figure::DecodeRate, 60)) * StatsHistory::binSeconds;
        const double prefill = sum(m_history->series(StatsHistory::Figure::PrefillRate, 60)) * StatsHistory::binSeconds;
        QVERIFY2(std::abs(decode - 300) < 0.5, qPrintable(QString::number(decode)));
        QVERIFY2(std::abs(prefill - 900) < 0.5, qPrintable(QString::number(prefill)));
    }

    void longStepSpreads()
    {
        emit m_client->stepsTaken({stepAt(14, 4, 0, 4000), stepAt(15, 0.01, 0, 0)});
        const auto rates = m_history->series(StatsHistory::Figure::PrefillRate, 20);
        QVERIFY(*std::max_element(rates.begin(), rates.end()) < 1010);
        QCOMPARE(std::count_if(rates.begin(), rates.end(), [](float v) { return v > 990; }), 8);
    }

    void oldBinsLeave()
    {
        emit m_client->stepsTaken({stepAt(10, 0.1, 500, 0)});
        emit m_client->stepsTaken({stepAt(10 + StatsHistory::binCount * StatsHistory::binSeconds + 5, 0.1, 7, 0)});
        emit m_client->stepsTaken({stepAt(10 + StatsHistory::binCount * StatsHistory::binSeconds + 6, 0.1, 0, 0)});
        const double tokens = sum(m_history->series(StatsHistory::Figure::DecodeRate, 600)) * StatsHistory::binSeconds;
        QVERIFY2(std::abs(tokens - 7) < 0.01, qPrintable(QString::number(tokens)));
    }

    void percentilesOfKnownSamples()
    {
        engine::StepStats step = stepAt(10, 0.1, 1, 0);
        for (int i = 1; i <= 100; ++i)
            step.itlMs.push_back(i);
        step.ttftMs = {84};
        emit m_client->stepsTaken({step});
        const ui::Percentiles gap = m_history->interTokenGap();
        QCOMPARE(gap.p50, 50.0);
        QCOMPARE(gap.p95, 95.0);
        QCOMPARE(gap.p99, 99.0);
        QCOMPARE(gap.samples, 100);
        QCOMPARE(m_history->timeToFirstToken().p99, 84.0);
    }

    void samplesAgeOut()
    {
        engine::StepStats early = stepAt(10, 0.1, 1, 0),
                          late = stepAt(10 + StatsHistory::latencySeconds + 5, 0.1, 1, 0);
        early.itlMs = {1000};
        late.itlMs = {20};
        emit m_client->stepsTaken({early});
        emit m_client->stepsTaken({late});
        QCOMPARE(m_history->interTokenGap().p99, 20.0);
        QCOMPARE(m_history->gaps(), std::vector<float>{20});
    }

    void spansOfARequest()
    {
        using Phase = ui::RequestSpan::Phase;
        engine::StepStats a = stepAt(10, 0.1, 0, 64), b = stepAt(10.1, 0.1, 1, 0), c = stepAt(10.2, 0.1, 0, 64),
                          d = stepAt(10.3, 0.1, 1, 0);
        a.rows = {row(9, 64, 0)};
        b.rows = {row(9, 0, 1)};
        c.rows = {row(9, 64, 0)}; // preempted, computed again
        d.rows = {row(9, 0, 1)};
        c.preempted = {9};
        engine::RequestAccepted accepted;
        accepted.id = 9;
        accepted.arrivedAt = 9.5;
        emit m_client->requestTaken(accepted);
        emit m_client->stepsTaken({a, b, c, d});
        QCOMPARE(m_history->requests().size(), std::size_t(1));
        std::vector<Phase> phases;
        for (const auto &segment : m_history->requests().front().segments)
            phases.push_back(segment.phase);
        QVERIFY((phases
                 == std::vector<Phase>{Phase::Queued, Phase::Prefill, Phase::Decode, Phase::Preempted, Phase::Recompute,
                                       Phase::Decode}));
        engine::RequestFinished end;
        end.id = 9;
        emit m_client->requestFinished(9, end);
        QVERIFY(m_history->requests().front().finished);
    }

    void requestsAreBounded()
    {
        std::vector<engine::StepStats> steps;
        for (int i = 1; i <= 600; ++i) {
            engine::StepStats step = stepAt(10 + i * 0.01, 0.01, 1, 0);
            step.rows = {row(quint64(i), 0, 1)};
            steps.push_back(step);
        }
        emit m_client->stepsTaken(steps);
        QCOMPARE(m_history->requests().size(), std::size_t(256));
        QCOMPARE(m_history->requests().back().id, quint64(256)); // while all of them run
        engine::RequestFinished end;
        end.id = 7;
        emit m_client->requestFinished(7, end);
        engine::StepStats step = stepAt(20, 0.01, 1, 0);
        step.rows = {row(700, 0, 1)};
        emit m_client->stepsTaken({step});
        QCOMPARE(m_history->requests().size(), std::size_t(256));
        QCOMPARE(m_history->requests().back().id, quint64(700));
    }

    void changedKnobBecomesAMarker()
    {
        engine::ModelInfo info;
        info.effective.kv.blockTokens = 16;
        emit m_client->modelLoaded(info);
        emit m_client->stepsTaken({stepAt(10, 0.1, 1, 0)});
        engine::ParametersApplied applied;
        applied.effective = info.effective;
        emit m_client->parametersApplied(applied); // nothing changed
        QCOMPARE(m_history->markers().size(), 0);
        applied.effective.kv.blockTokens = 32;
        emit m_client->parametersApplied(applied);
        QCOMPARE(m_history->markers().size(), 1);
        QCOMPARE(m_history->markers()[0].text, QStringLiteral("block 16 → 32"));
        QVERIFY(m_history->markers()[0].notice); // revision 0: the engine did it by itself
        applied.revision = 7;
        applied.step = m_history->lastStep()->step + 1;
        applied.effective.policy = engine::SchedulingPolicy::Shortest;
        applied.effective.admissionReserve = 0.5;
        emit m_client->parametersApplied(applied);
        QCOMPARE(m_history->markers().size(), 2);
        QCOMPARE(m_history->markers()[1].text, QStringLiteral("policy fcfs → shortest, reserve 20 % → 50 %"));
        QVERIFY(!m_history->markers()[1].notice);
        emit m_client->stepsTaken({stepAt(12, 0.5, 1, 0)});
        QCOMPARE(m_history->markers()[1].time, 11.5); // where its first step began
    }

    void noticesBecomeMarkers()
    {
        engine::EngineNotice notice;
        notice.kind = engine::EngineNotice::Kind::Overheated;
        notice.message = "cpu is at 91 C";
        emit m_client->noticed(notice);
        QCOMPARE(m_history->markers().size(), 1);
        QVERIFY(m_history->markers()[0].notice && !m_history->markers()[0].text.isEmpty());
    }

    void histogramCountsEverything()
    {
        const std::vector<int> counts = ui::GapCard::histogram({0, 1, 9.9f, 10, 500}, 10, 10);
        QCOMPARE(std::accumulate(counts.begin(), counts.end(), 0), 5);
        QCOMPARE(counts.front(), 1);
        QCOMPARE(counts.back(), 3);
    }

private:
    std::unique_ptr<EngineClient> m_client;
    std::unique_ptr<StatsHistory> m_history;
};

QTEST_MAIN(TestStatsHistory)
#include "tst_stats_history.moc"
