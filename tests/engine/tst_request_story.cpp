// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/scheduler_rig.h"

#include <QTest>

#include <cmath>
#include <random>

using namespace engine;
using namespace scheduler_rig;

namespace {

constexpr double stepMs = 10; // of the rig

bool isNear(double ms, double wanted)
{
    return std::abs(ms - wanted) < 1e-6;
}

} // namespace

/// Why a request took as long as it did, told by the scheduler.
class TestRequestStory : public QObject {
    Q_OBJECT

private slots:
    void aloneNothingHoldsItUp()
    {
        Rig rig(config(64, 4, {8, 64}));
        const RequestId id = rig.add(promptOf(20, 1), 6);
        rig.runAll();
        const RequestStory &story = rig.jobs.at(id).story;
        RequestStory wanted;
        wanted.prefillSteps = 1;
        wanted.steps = 6;
        wanted.mostRows = 1;
        wanted.meanRows = 1;
        wanted.longestGapMs = story.longestGapMs;
        QVERIFY(story == wanted);
        QVERIFY(isNear(story.longestGapMs, stepMs));
    }

    void waitsForAPlace()
    {
        Rig rig(config(64, 4, {1, 64}));
        rig.add(promptOf(8, 1), 5);
        rig.add(promptOf(8, 2), 5);
        QVERIFY(rig.step());
        const RequestId last = rig.add(promptOf(8, 3), 2);
        rig.runAll();
        const auto &job = rig.jobs.at(last);
        QCOMPARE(job.story.runningBefore, 1);
        QCOMPARE(job.story.waitingBefore, 1);
        QVERIFY(isNear(job.timings.queueMs, 9 * stepMs));
        QVERIFY(isNear(job.story.placesMs, 9 * stepMs));
        QVERIFY(isNear(job.story.blocksMs + job.story.turnMs, 0));
    }

    void waitsForBlocks()
    {
        Rig rig(config(10, 4, {8, 64}));
        rig.add(promptOf(20, 1), 4); // 5 blocks, then 6
        const RequestId second = rig.add(promptOf(24, 2), 2);
        rig.runAll();
        const auto &job = rig.jobs.at(second);
        QVERIFY(isNear(job.story.blocksMs, job.timings.queueMs));
        QVERIFY(isNear(job.timings.queueMs, 4 * stepMs));
        QCOMPARE(job.story.blocksWanted, 6);
        QCOMPARE(job.story.blocksFree, 3); // of the 5 that are free 2 are the reserve
    }

    void waitsForItsTurn()
    {
        Rig rig(config(200, 4, {8, 16}));
        rig.add(promptOf(64, 1), 1);
        for (int i = 2; i <= 6; ++i)
            rig.add(promptOf(64, i), 1);
        rig.runAll();
        const auto &job = rig.jobs.at(6);
        QVERIFY(job.timings.queueMs > 0);
        QVERIFY(isNear(job.story.turnMs, job.timings.queueMs));
        QCOMPARE(job.story.waitingBefore, 5);
    }

    void losesItsBlocks()
    {
        Rig rig(config(10, 4, {8, 64}));
        rig.scheduler.setRules({SchedulingPolicy::Fcfs, 0.0, 0, 0});
        rig.add(promptOf(12, 1), 20);
        const RequestId young = rig.add(promptOf(12, 2), 20);
        rig.runAll();
        const auto &job = rig.jobs.at(young);
        QVERIFY(rig.scheduler.preemptions() > 0);
        QVERIFY(job.story.preemptedMs >= stepMs);
        QVERIFY(job.story.recomputedTokens > 0);
        QVERIFY(job.story.longestGapMs <= job.story.preemptedMs + 1.5 * stepMs);
        QCOMPARE(job.output, rig.expected(job, job.contextLimit));
        const auto &old = rig.jobs.at(1);
        QVERIFY(isNear(old.story.preemptedMs, 0));
    }

    void standsStillUnderALoweredLimit()
    {
        Rig rig(config(64, 4, {4, 64}));
        rig.add(promptOf(8, 1), 8);
        const RequestId paused = rig.add(promptOf(8, 2), 8);
        QVERIFY(rig.step());
        QVERIFY(rig.step());
        rig.scheduler.setLimits({1, 64});
        rig.runAll();
        QVERIFY(isNear(rig.jobs.at(paused).story.pausedMs, 6 * stepMs));
        QVERIFY(isNear(rig.jobs.at(1).story.pausedMs, 0));
    }

    void sharesItsStepsWithOthers()
    {
        Rig rig(config(200, 4, {8, 32}));
        const RequestId first = rig.add(promptOf(4, 1), 8);
        QVERIFY(rig.step());
        QVERIFY(rig.step());
        rig.add(promptOf(60, 2), 1); // 31 tokens, then 29
        rig.runAll();
        const RequestStory &story = rig.jobs.at(first).story;
        QCOMPARE(story.mostRows, 2);
        QVERIFY(isNear(story.meanRows, 10.0 / 8));
        QCOMPARE(story.othersPrefill, 60);
        QVERIFY(isNear(story.othersPrefillMs, 2 * stepMs));
        QVERIFY(story.longestGapMs > 0);
    }

    void heatIsCounted()
    {
        Rig rig(config(64, 4, {4, 64}));
        const RequestId id = rig.add(promptOf(8, 1), 6);
        QVERIFY(rig.step());
        rig.scheduler.setLimits({4, 48});
        rig.scheduler.setHot(true);
        QVERIFY(rig.step());
        rig.scheduler.setLimits({4, 36});
        QVERIFY(rig.step());
        rig.scheduler.setHot(false);
        rig.scheduler.setLimits({4, 64});
        rig.runAll();
        QCOMPARE(rig.jobs.at(id).story.hotSteps, 2);
        QCOMPARE(rig.jobs.at(id).story.hotBudget, 36);
    }

    void forksShareTheStoryOfTheirPrompt()
    {
        Rig rig(config(64, 4, {8, 64}));
        const RequestId leader = rig.add(promptOf(20, 1), 3);
        const RequestId fork = rig.add(promptOf(20, 1), 3, 0, Rig::greedy(), 0, leader);
        rig.runAll();
        QCOMPARE(rig.jobs.at(fork).story.prefillSteps, 1);
        QCOMPARE(rig.jobs.at(fork).story.steps, 3);
        QVERIFY(isNear(rig.jobs.at(fork).timings.queueMs, rig.jobs.at(leader).timings.queueMs));
    }

    void stepsSayWhoseTheirTimesAre()
    {
        Rig rig(config(64, 4, {8, 64}));
        const RequestId a = rig.add(promptOf(20, 1), 3);
        QVERIFY(rig.step());
        QCOMPARE(rig.result.stats.admitted, std::vector<RequestId>{a});
        QCOMPARE(rig.result.stats.admittedCached, std::vector<int>{0});
        QCOMPARE(rig.result.stats.ttftRequests, std::vector<RequestId>{a});
        const RequestId b = rig.add(promptOf(20, 1), 2);
        QVERIFY(rig.step());
        QCOMPARE(rig.result.stats.admittedCached, std::vector<int>{16});
        QCOMPARE(rig.result.stats.ttftRequests, std::vector<RequestId>{b});
        QCOMPARE(rig.result.stats.itlRequests, std::vector<RequestId>{a});
        QCOMPARE(rig.result.stats.itlRequests.size(), rig.result.stats.itlMs.size());
    }

    // Waits are parts of the queue time, whatever happens.
    void waitsNeverExceedTheQueueTime()
    {
        for (unsigned seed = 1; seed <= 40; ++seed) {
            std::mt19937 random(seed);
            const auto pick = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
            Rig rig(config(pick(12, 30), 4, {pick(1, 5), pick(8, 40)}));
            for (int i = 0; i < 12; ++i) {
                rig.add(promptOf(pick(1, 30), pick(1, 3)), pick(1, 12));
                for (int k = pick(0, 3); k > 0; --k)
                    (void)rig.step();
                if (pick(0, 5) == 0)
                    rig.cancel(static_cast<RequestId>(pick(1, i + 1)));
                if (pick(0, 5) == 0)
                    rig.scheduler.setLimits({pick(1, 5), pick(8, 40)});
            }
            rig.runAll();
            for (const auto &[id, job] : rig.jobs) {
                const RequestStory &s = job.story;
                const double waits = s.placesMs + s.blocksMs + s.turnMs;
                QVERIFY2(waits <= job.timings.queueMs + 1e-6 && waits >= 0, qPrintable(QString::number(seed)));
                QVERIFY(s.preemptedMs <= job.timings.e2eMs + 1e-6);
                QVERIFY(s.meanRows <= s.mostRows + 1e-9);
                QVERIFY(s.steps == 0 || s.mostRows >= 1);
                QVERIFY(s.longestGapMs <= job.timings.decodeMs + 1e-6);
            }
        }
    }
};

QTEST_GUILESS_MAIN(TestRequestStory)
#include "tst_request_story.moc"
