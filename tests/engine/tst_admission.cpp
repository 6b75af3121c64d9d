// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/totals.h"
#include "tests/support/engine_fixture.h"

#include <QTest>

#include <algorithm>

using namespace engine;
using namespace engine_fixture;
using namespace std::chrono_literals;

namespace {

/// How many requests ended because a queue was full.
int busy(Fixture &f, const std::vector<RequestId> &ids)
{
    return static_cast<int>(std::ranges::count_if(ids, [&f](RequestId id) {
        const auto &finished = f.answer(id).finished;
        return finished && finished->reason == FinishReason::Failed && finished->code == ErrorCode::Busy;
    }));
}

std::vector<Request> several(int count, int promptTokens, int maxTokens)
{
    std::vector<Request> requests;
    for (int i = 0; i < count; ++i)
        requests.push_back(ask(promptOf(promptTokens, i), greedy(maxTokens)));
    return requests;
}

} // namespace

/// Who is let in and who is told to come back later, and the totals that tell of it.
class TestAdmission : public QObject {
    Q_OBJECT

private slots:
    void aFullQueueRefusesAtOnce()
    {
        Fixture f;
        EngineConfig config;
        config.limits = {2, 64};
        config.maxNumQueuedReqs = 3;
        QVERIFY(f.driver.load("model", config));
        const auto ids = f.engine.submitAll(several(10, 8, 20));
        QVERIFY(f.driver.finish(ids));
        QCOMPARE(busy(f, ids), 5); // two places and three that wait
        for (std::size_t i = 0; i < 5; ++i)
            QCOMPARE(f.answer(ids[i]).ids, f.expected(promptOf(8, static_cast<int>(i)), greedy(20)));
        const RequestFinished refused = *f.answer(ids[7]).finished;
        QCOMPARE(refused.error, std::string("the queue is full: 3 requests wait, allowed are 3 (max-num-queued-reqs)"));
        QVERIFY(refused.retryAfterSeconds >= 1);
        QVERIFY(f.answer(ids[7]).promptTokens < 0); // it was never accepted
        QVERIFY(f.allBlocksFree());
        QCOMPARE(f.run(ask(promptOf(8, 1), greedy(5))).ids, f.expected(promptOf(8, 1), greedy(5)));
    }

    void queuedTokensAreLimitedToo()
    {
        Fixture f;
        EngineConfig config;
        config.limits = {1, 64};
        config.maxNumQueuedTokens = 50;
        QVERIFY(f.driver.load("model", config));
        const auto ids = f.engine.submitAll(several(6, 20, 20));
        QVERIFY(f.driver.finish(ids));
        QCOMPARE(busy(f, ids), 3); // one runs, two of 20 tokens wait
        QCOMPARE(f.answer(ids[3]).finished->error,
                 std::string("the queue is full: with this request 60 prompt tokens would wait, allowed are 50 "
                             "(max-num-queued-tokens)"));
        // One that does not have to wait is not counted, however long it is.
        QCOMPARE(f.run(ask(promptOf(80, 1), greedy(5))).finished->reason, FinishReason::Length);
    }

    void rulesChangeWhileRequestsRun()
    {
        Fixture f;
        f.controls.beforeRun = [](const Batch & /*batch*/) { std::this_thread::sleep_for(1ms); };
        EngineConfig config;
        config.limits = {1, 64};
        QVERIFY(f.driver.load("model", config));
        const auto first = f.engine.submitAll(several(3, 8, 60));
        QVERIFY(f.driver.until([&] { return !f.answer(first[0]).ids.empty(); }));
        AdmissionRules rules;
        rules.policy = SchedulingPolicy::Shortest;
        rules.maxNumQueuedReqs = 2;
        const std::uint64_t revision = f.engine.setRules(rules);
        const auto more = f.engine.submitAll(several(2, 4, 2));
        QVERIFY(f.driver.finish(more));
        QCOMPARE(busy(f, more), 2);
        QCOMPARE(f.driver.applied.front().revision, revision);
        QCOMPARE(f.driver.applied.front().effective.policy, SchedulingPolicy::Shortest);
        QCOMPARE(f.driver.applied.front().effective.maxNumQueuedReqs, 2);
        (void)f.engine.setRules({});
        const auto late = f.engine.submitAll(several(2, 4, 2));
        QVERIFY(f.driver.finish(first) && f.driver.finish(late));
        QCOMPARE(busy(f, late), 0);
    }

    void forksAnswerOnePromptSeveralTimes()
    {
        Fixture f;
        QVERIFY(f.driver.load("model"));
        SamplingParams sampling = greedy(30);
        sampling.temperature = 1.0;
        sampling.seed = 40;
        const std::vector<int> prompt = promptOf(37, 3);
        const auto ids = f.engine.submitForks(ask(prompt, sampling), 4);
        QCOMPARE(ids.size(), 4U);
        QVERIFY(f.driver.finish(ids));
        for (std::size_t i = 0; i < 4; ++i) {
            SamplingParams own = sampling;
            own.seed = 40 + i;
            QCOMPARE(f.answer(ids[i]).ids, f.expected(prompt, own));
            QVERIFY(f.answer(ids[i]).ordered);
        }
        QVERIFY(f.answer(ids[0]).ids != f.answer(ids[1]).ids);
        QVERIFY(f.allBlocksFree());
    }

    void totalsCountWhatHappened()
    {
        Fixture f;
        QVERIFY(f.driver.load("model"));
        const auto ids = f.engine.submitAll(several(5, 20, 10));
        const auto refused = f.engine.submit(ask({}, greedy(1)));
        QVERIFY(f.driver.finish(ids) && f.driver.finish({refused}));
        const EngineTotals totals = f.engine.totals();
        QCOMPARE(totals.promptTokens, 100U);
        QCOMPARE(totals.generationTokens, 50U);
        QCOMPARE(totals.prefixQueryTokens, 100U);
        QCOMPARE(totals.finished[static_cast<std::size_t>(FinishReason::Length)], 5U);
        QCOMPARE(totals.finished[static_cast<std::size_t>(FinishReason::Failed)], 1U);
        QCOMPARE(totals.running + totals.waiting, 0);
        QCOMPARE(totals.kvUsage, 0.0);
        const LatencyHistograms &latencies = totals.latencies;
        QCOMPARE(latencies.ttft.count, 5U);
        QCOMPARE(latencies.itl.count, 45U);
        for (const Histogram *one : {&latencies.tpot, &latencies.e2e, &latencies.queue, &latencies.prefill,
                                     &latencies.decode, &latencies.promptTokens, &latencies.generationTokens})
            QCOMPARE(one->count, 5U);
        QCOMPARE(latencies.promptTokens.sum, 100.0);
        double ttft = 0;
        for (const RequestId id : ids)
            ttft += f.answer(id).finished->timings.ttftMs / 1000;
        QVERIFY(std::abs(latencies.ttft.sum - ttft) < 1e-9);
        QCOMPARE(totals.memory.kvUsed + totals.memory.kvCached + totals.memory.kvFree, totals.kvBytes);
    }

    void histogramsAreCumulative()
    {
        LatencyHistograms latencies;
        Histogram &lengths = latencies.promptTokens; // 1, 2, 5, 10, ...
        for (const double value : {0.0, 1.0, 2.0, 3.0, 10.0, 2e9})
            lengths.observe(value);
        QCOMPARE(lengths.count, 6U);
        QCOMPARE(lengths.sum, 2e9 + 16);
        QCOMPARE(lengths.buckets[0], 2U);
        QCOMPARE(lengths.buckets[1], 3U);
        QCOMPARE(lengths.buckets[2], 4U);
        QCOMPARE(lengths.buckets[3], 5U);
        QCOMPARE(lengths.buckets[lengths.bounds.size() - 1], 5U);
        QVERIFY(std::ranges::is_sorted(latencies.ttft.bounds) && latencies.ttft.bounds.size() == 22);
    }
};

QTEST_GUILESS_MAIN(TestAdmission)
#include "tst_admission.moc"
