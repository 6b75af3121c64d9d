// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/scheduler_rig.h"

#include <QTest>

#include <algorithm>
#include <limits>

using namespace engine;
using namespace scheduler_rig;

class TestScheduler : public QObject {
    Q_OBJECT

private slots:
    void decodesFirstAndPromptsFillTheRest()
    {
        Rig rig(config(100, 16, {8, 32}));
        const RequestId a = rig.add(promptOf(10, 1), 50);
        QVERIFY(rig.step());
        rig.add(promptOf(100, 2), 5);
        QVERIFY(rig.step());
        QCOMPARE(rig.batch.rows.size(), 2U);
        QCOMPARE(rig.batch.rows[0].request, a);
        QCOMPARE(rig.batch.rows[0].decodeTokens, 1);
        QCOMPARE(rig.batch.rows[1].tokens, 31);
        QVERIFY(!rig.batch.rows[1].samples);
        QCOMPARE(rig.result.stats.decodeTokens, 1);
        QCOMPARE(rig.result.stats.prefillTokens, 31);
        QCOMPARE(rig.result.stats.rows[1].contextTokens, 31);
        rig.runAll();
    }

    void onePromptIsCappedOnlyWhileOthersWait()
    {
        Rig rig(config(1000, 16, {8, 64}));
        const RequestId big = rig.add(promptOf(500, 1), 1);
        QVERIFY(rig.step());
        QCOMPARE(totalTokens(rig.batch), 64);
        const RequestId small = rig.add(promptOf(10, 2), 1);
        QVERIFY(rig.step());
        QCOMPARE(rig.batch.rows.size(), 2U);
        QCOMPARE(totalTokens(rig.batch), 64); // the rest goes back to the first
        QVERIFY(rig.jobs[small].ended.has_value());
        QVERIFY(!rig.jobs[big].ended.has_value());
        rig.runAll();
    }

    void refusesWhatCanNeverRunWithBothNumbers()
    {
        const Scheduler scheduler(config(4, 8, {}, 100)); // the pool holds 32 tokens
        QCOMPARE(scheduler.refuse(16, 15), std::string());
        QCOMPARE(scheduler.refuse(16, 16), std::string());
        const std::string beyond = scheduler.refuse(16, 17);
        QVERIFY(beyond.find("33") != std::string::npos && beyond.find("32") != std::string::npos);
        QVERIFY(!scheduler.refuse(32, 0).empty());
        QCOMPARE(scheduler.refuse(31, 0), std::string());
        QVERIFY(!scheduler.refuse(0, 1).empty());
        const Scheduler roomy(config(100, 8, {}, 100));
        const std::string tooLong = roomy.refuse(100, 1);
        QVERIFY(tooLong.find("has 100 tokens") != std::string::npos && tooLong.find("holds 100") != std::string::npos);
        QCOMPARE(roomy.refuse(99, 1), std::string());
        QCOMPARE(roomy.refuse(50, 1000), std::string()); // ends with a full context
    }

    void endsByLengthContextAndEndToken()
    {
        Rig rig(config(100, 8, {}, 40));
        const RequestId length = rig.add(promptOf(10, 1), 5);
        const RequestId context = rig.add(promptOf(30, 2), 0);
        const RequestId both = rig.add(promptOf(30, 3), 10);
        rig.runAll();
        QCOMPARE(*rig.jobs[length].ended, FinishReason::Length);
        QCOMPARE(rig.jobs[length].output.size(), 5U);
        QCOMPARE(*rig.jobs[context].ended, FinishReason::ContextFull);
        QCOMPARE(rig.jobs[context].output.size(), 10U);
        QCOMPARE(*rig.jobs[both].ended, FinishReason::Length);

        const std::vector<int> output = rig.jobs[length].output;
        Rig second(config(100, 8, {}, 40));
        second.endToken = output[2];
        const RequestId stopped = second.add(promptOf(10, 1), 5);
        second.runAll();
        QCOMPARE(*second.jobs[stopped].ended, FinishReason::Stop);
        const auto first = std::ranges::find(output, output[2]);
        QCOMPARE(second.jobs[stopped].output, std::vector<int>(output.begin(), first + 1));
    }

    void aPoolThatIsFullMakesRequestsWaitThenRecompute()
    {
        Rig rig(config(10, 8, {8, 64}));
        for (int i = 0; i < 6; ++i)
            rig.add(promptOf(20, i), 40);
        rig.runAll();
        QVERIFY(rig.scheduler.preemptions() > 0);
        for (auto &[id, job] : rig.jobs)
            QCOMPARE(job.output, rig.expected(job, 80));
        QCOMPARE(rig.scheduler.blocks().usedBlocks(), 0);
        QCOMPARE(rig.scheduler.audit(), std::string());
    }

    void oneRequestMayTakeTheWholePool()
    {
        Rig rig(config(5, 8, {8, 64}));
        const RequestId id = rig.add(promptOf(20, 1), 20);
        rig.runAll();
        QCOMPARE(rig.scheduler.preemptions(), 0U);
        QCOMPARE(*rig.jobs[id].ended, FinishReason::Length);
        Rig open(config(5, 8, {8, 64}));
        const RequestId endless = open.add(promptOf(20, 1), 0);
        open.runAll();
        QCOMPARE(*open.jobs[endless].ended, FinishReason::ContextFull);
        QCOMPARE(open.jobs[endless].output.size(), 20U);
    }

    void aReserveStaysFreeOnlyBesideRunningRequests()
    {
        Rig rig(config(10, 8, {8, 64}));
        rig.add(promptOf(32, 1), 2); // 4 blocks; 6 are left, 2 of them are the reserve
        rig.add(promptOf(36, 2), 2); // needs 5
        QVERIFY(rig.step());
        QCOMPARE(rig.batch.rows.size(), 1U);
        rig.runAll();
        QCOMPARE(rig.scheduler.preemptions(), 0U);
        Rig full(config(10, 8, {8, 100}));
        full.add(promptOf(78, 1), 2); // all 10 blocks, alone
        QVERIFY(full.step());
        full.runAll();
    }

    void prefixHitsSaveWorkAndChangeNothing()
    {
        Rig rig(config(100, 8));
        const RequestId first = rig.add(promptOf(60, 1), 10);
        rig.runAll();
        const RequestId second = rig.add(promptOf(60, 1), 10);
        QVERIFY(rig.step());
        QCOMPARE(totalTokens(rig.batch), 4);
        rig.runAll();
        QCOMPARE(rig.jobs[second].cachedTokens, 56);
        QCOMPARE(rig.jobs[second].output, rig.jobs[first].output);
        QCOMPARE(rig.scheduler.prefixHitTokens(), 56U);
        std::vector<int> next = rig.jobs[first].prompt; // a conversation goes on: output blocks are found too
        next.insert(next.end(), rig.jobs[first].output.begin(), rig.jobs[first].output.end());
        next.push_back(3);
        const RequestId third = rig.add(next, 4);
        rig.runAll();
        QCOMPARE(rig.jobs[third].cachedTokens, 64);
        QCOMPARE(rig.jobs[third].output, rig.expected(rig.jobs[third], 100000));
    }

    /// Tokens 21 and on are computed another way than those of shorter sequences.
    void aSequenceThatGetsTooLongIsComputedAgain()
    {
        Scheduler::Config c = config(100, 8);
        c.variants = {20, false};
        Rig rig(c);
        const RequestId first = rig.add(promptOf(18, 1), 8);
        std::vector<int> tokensOfSteps;
        while (!rig.scheduler.idle()) {
            QVERIFY(rig.step());
            tokensOfSteps.push_back(totalTokens(rig.batch));
        }
        QCOMPARE(tokensOfSteps, (std::vector<int>{18, 1, 1, 21, 1, 1, 1, 1})); // nothing of the first kind is reused
        QCOMPARE(rig.jobs[first].output, rig.expected(rig.jobs[first], 100000));
        QCOMPARE(rig.scheduler.preemptions(), 0U);
        const RequestId shorter = rig.add(promptOf(18, 1), 1); // finds the blocks of its own kind
        const RequestId longer = rig.add(promptOf(30, 1), 1);  // as long as the first one became: no block is equal
        rig.runAll();
        QCOMPARE(rig.jobs[shorter].cachedTokens, 16);
        QCOMPARE(rig.jobs[longer].cachedTokens, 16);
        QCOMPARE(rig.jobs[longer].output, rig.expected(rig.jobs[longer], 100000));
    }

    void preemptedRequestsResumeBeforeNewOnes()
    {
        Rig rig(config(8, 8, {8, 64}));
        for (int i = 0; i < 2; ++i)
            rig.add(promptOf(24, i), 30);
        while (rig.scheduler.preemptions() == 0)
            QVERIFY(rig.step());
        const RequestId late = rig.add(promptOf(4, 9), 2);
        while (rig.jobs[late].admittedAtStep < 0)
            QVERIFY(rig.step());
        for (const Sequence *sequence : rig.scheduler.sequences())
            QVERIFY(!sequence->preempted);
        rig.runAll();
    }

    void theCheapestToRecomputeIsPreempted()
    {
        Rig rig(config(9, 8, {2, 2}));
        const RequestId old = rig.add(promptOf(8, 1), 60);
        QVERIFY(rig.step());
        const RequestId young = rig.add(promptOf(40, 2), 5); // five blocks at once, few of them computed
        while (rig.scheduler.preemptions() == 0)
            QVERIFY(rig.step());
        QVERIFY(rig.scheduler.find(young)->preempted);
        QVERIFY(!rig.scheduler.find(old)->preempted);
        rig.runAll();
        QCOMPARE(rig.jobs[young].output, rig.expected(rig.jobs[young], 72));
    }

    void policies()
    {
        const auto orderOf = [](SchedulingPolicy policy) {
            Scheduler::Config c = config(100, 8, {1, 64});
            c.rules.policy = policy;
            Rig rig(c);
            rig.add(promptOf(30, 1), 2, 5);
            rig.add(promptOf(10, 2), 2, 7);
            rig.add(promptOf(20, 3), 2, 1);
            rig.runAll();
            std::vector<RequestId> order{1, 2, 3};
            std::ranges::sort(order, {}, [&rig](RequestId id) { return rig.jobs.at(id).admittedAtStep; });
            return order;
        };
        QCOMPARE(orderOf(SchedulingPolicy::Fcfs), (std::vector<RequestId>{1, 2, 3}));
        QCOMPARE(orderOf(SchedulingPolicy::Priority), (std::vector<RequestId>{3, 1, 2}));
        QCOMPARE(orderOf(SchedulingPolicy::Shortest), (std::vector<RequestId>{2, 3, 1}));
    }

    /// A resumed request goes before new ones of its own priority and lower ones; a higher one was asked to go first.
    void resumedRequestsGoBeforeNewOnesOfTheirPriority()
    {
        for (const SchedulingPolicy policy :
             {SchedulingPolicy::Fcfs, SchedulingPolicy::Priority, SchedulingPolicy::Shortest}) {
            Scheduler::Config c = config(10, 8, {8, 64});
            c.rules.policy = policy;
            c.rules.admissionReserve = 0;
            Rig rig(c);
            rig.add(promptOf(30, 1), 44, 5);
            rig.add(promptOf(31, 2), 40, 5);
            while (rig.scheduler.preemptions() == 0)
                QVERIFY(rig.step());
            const auto all = rig.scheduler.sequences();
            const RequestId victim = (*std::ranges::find(all, true, &Sequence::preempted))->id;
            rig.add(promptOf(3, 6), 30, 7);
            const RequestId equal = rig.add(promptOf(3, 3), 30, 5);
            rig.add(promptOf(3, 4), 30, 5);
            const RequestId urgent = rig.add(promptOf(3, 5), 30, 1);
            while (rig.scheduler.find(victim)->preempted && rig.step()) {
                QVERIFY(rig.jobs[equal].admittedAtStep < 0 || !rig.scheduler.find(victim)->preempted);
                QVERIFY(policy == SchedulingPolicy::Priority || rig.jobs[urgent].admittedAtStep < 0
                        || !rig.scheduler.find(victim)->preempted);
            }
            if (policy == SchedulingPolicy::Priority)
                QVERIFY(rig.jobs[urgent].admittedAtStep >= 0);
            rig.runAll();
            for (const auto &[id, job] : rig.jobs)
                QCOMPARE(job.output, rig.expected(job, 80));
        }
    }

    void lowPriorityIsPreemptedFirst()
    {
        Scheduler::Config c = config(8, 8, {8, 64});
        c.rules.policy = SchedulingPolicy::Priority;
        Rig rig(c);
        const RequestId low = rig.add(promptOf(17, 1), 30, 9);
        const RequestId high = rig.add(promptOf(23, 2), 30, 1);
        while (rig.scheduler.preemptions() == 0)
            QVERIFY(rig.step());
        QVERIFY(rig.scheduler.find(low)->preempted);
        QVERIFY(!rig.scheduler.find(high)->preempted);
        rig.runAll();
    }

    void aBigRequestIsPassedOnlySoOften_data()
    {
        QTest::addColumn<int>("policy");
        QTest::newRow("fcfs") << static_cast<int>(SchedulingPolicy::Fcfs);
        QTest::newRow("shortest") << static_cast<int>(SchedulingPolicy::Shortest);
    }
    void aBigRequestIsPassedOnlySoOften()
    {
        QFETCH(int, policy);
        Scheduler::Config c = config(20, 8, {8, 64});
        c.rules.policy = static_cast<SchedulingPolicy>(policy);
        c.kv.prefixCaching = false;
        Rig rig(c);
        rig.add(promptOf(40, 1), 10);
        QVERIFY(rig.step());
        const RequestId big = rig.add(promptOf(120, 2), 3);
        int small = 0;
        while (rig.jobs[big].admittedAtStep < 0) { // small ones never cease to come
            while (rig.scheduler.waiting() < 3)
                rig.add(promptOf(12, 3 + small++), 4);
            QVERIFY(rig.step());
            QVERIFY2(small < 4 * Scheduler::maxOvertaken, "the big request starves");
        }
        QVERIFY(small >= Scheduler::maxOvertaken / 2);
        rig.runAll();
    }

    void fewerSequencesPauseWithTheirBlocks()
    {
        Rig rig(config(100, 8, {8, 64}));
        for (int i = 0; i < 6; ++i)
            rig.add(promptOf(10, i), 20);
        QVERIFY(rig.step());
        QCOMPARE(rig.batch.rows.size(), 6U);
        rig.scheduler.setLimits({2, 64});
        QVERIFY(rig.step());
        QCOMPARE(rig.batch.rows.size(), 2U);
        QCOMPARE(rig.result.stats.running, 2);
        QCOMPARE(rig.result.stats.waiting, 4);
        QCOMPARE(rig.result.stats.maxNumSeqs, 2);
        rig.runAll();
        QCOMPARE(rig.scheduler.preemptions(), 0U);
        for (auto &[id, job] : rig.jobs)
            QCOMPARE(job.output, rig.expected(job, 100000));
    }

    void limitsAreClamped()
    {
        QVERIFY(Scheduler::clampLimits({0, 0}) == (BatchLimits{1, 1}));
        QVERIFY(Scheduler::clampLimits({64, 8}) == (BatchLimits{64, 64}));
        QVERIFY(Scheduler::clampLimits({8, 64}) == (BatchLimits{8, 64}));
    }

    void cancelsInEveryPhase()
    {
        Rig rig(config(20, 8, {1, 16}));
        const RequestId running = rig.add(promptOf(40, 1), 20);
        const RequestId waiting = rig.add(promptOf(10, 2), 20);
        rig.cancel(waiting);
        QCOMPARE(*rig.jobs[waiting].ended, FinishReason::Cancelled);
        QVERIFY(rig.step()); // in the middle of its prompt
        rig.cancel(running);
        QCOMPARE(*rig.jobs[running].ended, FinishReason::Cancelled);
        QVERIFY(rig.scheduler.idle());
        QVERIFY(rig.scheduler.schedule(0).empty());
        QCOMPARE(rig.scheduler.blocks().usedBlocks(), 0);
        rig.cancel(running); // an unknown request is no fault
    }

    void unusableLogitsFailOneRequestAndAreForgotten()
    {
        Rig rig(config(100, 8));
        const RequestId bad = rig.add(promptOf(40, 1), 10);
        const RequestId good = rig.add(promptOf(40, 2), 10);
        rig.model.spoil = [&](const BatchRow &row, std::span<float> logits) {
            if (row.request == bad && row.decodeTokens == 1)
                logits[5] = std::numeric_limits<float>::quiet_NaN();
        };
        rig.runAll();
        QCOMPARE(*rig.jobs[bad].ended, FinishReason::Failed);
        QVERIFY(rig.jobs[bad].error.find("not-a-number") != std::string::npos);
        QCOMPARE(rig.jobs[good].output, rig.expected(rig.jobs[good], 100000));
        QCOMPARE(rig.scheduler.blocks().match(promptOf(40, 1)).tokens, 0);
        QCOMPARE(rig.scheduler.blocks().match(promptOf(40, 2)).tokens, 32);
    }

    void anAbandonedStepFailsItsRequestsOnly()
    {
        Rig rig(config(100, 8, {2, 64}));
        for (int i = 0; i < 4; ++i)
            rig.add(promptOf(20, i), 5);
        QVERIFY(rig.step());
        const Batch batch = rig.scheduler.schedule(rig.now);
        const auto finished = rig.scheduler.abandon(batch, "broken");
        QCOMPARE(finished.size(), 2U);
        for (const FinishedSequence &one : finished)
            rig.take(one);
        rig.runAll();
        QCOMPARE(*rig.jobs[1].ended, FinishReason::Failed);
        QCOMPARE(rig.jobs[1].error, std::string("broken"));
        QCOMPARE(rig.jobs[3].output, rig.expected(rig.jobs[3], 100000));
        QCOMPARE(rig.scheduler.audit(), std::string());
    }

    void latenciesUseTheArrival()
    {
        Rig rig(config(100, 8));
        rig.add(promptOf(10, 1), 3);
        rig.now = 5;
        QVERIFY(rig.step());
        QCOMPARE(rig.result.stats.ttftMs.size(), 1U);
        QVERIFY(qAbs(rig.result.stats.ttftMs[0] - 5010.0) < 1e-6); // it arrived at 0
        QVERIFY(rig.result.stats.itlMs.empty());
        QVERIFY(rig.step());
        QCOMPARE(rig.result.stats.itlMs.size(), 1U);
        QVERIFY(qAbs(rig.result.stats.itlMs[0] - 10.0) < 1e-6);
    }

    void aTokenCapSlowsPromptsNotDecodes()
    {
        Rig rig(config(100, 8, {8, 256}));
        rig.add(promptOf(4, 1), 10);
        rig.add(promptOf(4, 2), 10);
        QVERIFY(rig.step());
        rig.add(promptOf(100, 3), 1);
        QVERIFY(rig.step(16));
        QCOMPARE(totalTokens(rig.batch), 18);
        rig.runAll();
    }

    void forksShareThePromptAndCopyItsTail()
    {
        Rig rig(config(40, 16));
        SamplingParams drawn;
        drawn.temperature = 1.0;
        const std::vector<int> prompt = promptOf(40, 1); // two full blocks and half of a third
        const RequestId first = rig.add(prompt, 20, 0, drawn, 1);
        for (std::uint64_t seed = 2; seed < 5; ++seed)
            rig.add(prompt, 20, 0, drawn, seed, first);
        QCOMPARE(rig.scheduler.waiting(), 4);
        QVERIFY(rig.step());
        QCOMPARE(totalTokens(rig.batch), 40); // computed once
        QCOMPARE(rig.result.outputs.size(), 4U);
        QCOMPARE(rig.scheduler.blocks().usedBlocks(), 3);
        QVERIFY(rig.step());
        QCOMPARE(rig.copies, 3); // the last of them writes in place
        QCOMPARE(rig.scheduler.blocks().usedBlocks(), 6);
        rig.runAll();
        for (const auto &[id, job] : rig.jobs)
            QCOMPARE(job.output, rig.expected(job, 100000));
        QVERIFY(rig.jobs[1].output != rig.jobs[2].output);
        QCOMPARE(rig.scheduler.blocks().usedBlocks(), 0);
        QCOMPARE(rig.scheduler.audit(), std::string());
    }

    void aForkTakesOverWhenTheFirstIsCancelled()
    {
        Rig rig(config(40, 16, {4, 16}));
        const std::vector<int> prompt = promptOf(40, 1);
        const RequestId first = rig.add(prompt, 10);
        const RequestId second = rig.add(prompt, 12, 0, Rig::greedy(), 0, first);
        const RequestId third = rig.add(prompt, 14, 0, Rig::greedy(), 0, first);
        QVERIFY(rig.step());
        rig.cancel(first);
        rig.cancel(third);
        QCOMPARE(*rig.jobs[third].ended, FinishReason::Cancelled);
        QVERIFY(rig.step());
        QCOMPARE(rig.batch.forward.positions.front(), 16); // what was computed is not computed again
        rig.runAll();
        QCOMPARE(rig.jobs[second].output, rig.expected(rig.jobs[second], 100000));
        QVERIFY(rig.jobs[first].output.empty());
    }

    void aPoolOfOtherSizesKeepsWhatRuns()
    {
        Rig rig(config(40, 16, {8, 64}));
        for (int i = 0; i < 6; ++i)
            rig.add(promptOf(30 + i, i / 2), 60);
        for (int i = 0; i < 12; ++i)
            QVERIFY(rig.step());
        const int computedBefore = rig.scheduler.sequences().front()->computed;
        rig.repage(30, 32);
        QCOMPARE(rig.scheduler.preemptions(), 0U);
        QCOMPARE(rig.scheduler.audit(), std::string());
        QCOMPARE(rig.scheduler.sequences().front()->computed, computedBefore);
        QVERIFY(rig.step());
        QCOMPARE(totalTokens(rig.batch), 6); // nothing is computed again
        rig.repage(12, 8);                   // room for one, as promised, and little more
        QVERIFY(rig.scheduler.preemptions() >= 3);
        QVERIFY(rig.scheduler.running() >= 1);
        rig.runAll();
        for (const auto &[id, job] : rig.jobs)
            QCOMPARE(job.output, rig.expected(job, 100000));
        QCOMPARE(rig.scheduler.blocks().usedBlocks(), 0);
    }

    /// Prompts around the window's size, far longer ones, and answers over several windows, in two kinds of pool: as
    /// many window slots as the rule gives, and the fewest that one request can run in.
    void windowsHoldWhatIsSeen_data()
    {
        QTest::addColumn<int>("window");
        QTest::addColumn<bool>("fewest");
        for (const int window : {1, 8, 15, 16, 17, 40})
            for (const bool fewest : {false, true})
                QTest::addRow("%d%s", window, fewest ? ", fewest" : "") << window << fewest;
    }
    void windowsHoldWhatIsSeen()
    {
        QFETCH(int, window);
        QFETCH(bool, fewest);
        Scheduler::Config c = withWindow(config(200, 16, {4, 64}), window);
        if (fewest)
            c.kv.windowBlocks = windowBlocksFor({200, 16, window}, 1, 1);
        Rig rig(c);
        const BlockSnapshot empty = snapshotBlocks(rig.scheduler);
        QCOMPARE(empty.map->windowBlocks, c.kv.windowBlocks);
        QCOMPARE(empty.map->windowBlocksUsed, 0);
        int salt = 0;
        for (const int length : {std::max(1, window - 1), window, window + 1, 3 * window + 5, 200})
            rig.add(promptOf(length, ++salt), 4 * window + 20);
        const int each = (window + 15) / 16 + 1;
        while (rig.step()) {
            const WindowPool &pool = rig.scheduler.blocks().window();
            QVERIFY(pool.size() - pool.free() <= each * static_cast<int>(rig.scheduler.sequences().size()));
            const BlockSnapshot pages = snapshotBlocks(rig.scheduler);
            QCOMPARE(pages.map->windowBlocksUsed, pool.size() - pool.free());
            QCOMPARE(std::ranges::count_if(pages.map->blocks, &BlockInfo::inWindow),
                     pool.size() - pool.free() + pool.kept());
            QCOMPARE(rig.scheduler.audit(), std::string());
        }
        for (const auto &[id, job] : rig.jobs)
            QVERIFY2(job.output == rig.expected(job, 100000), qPrintable(QString::number(id)));
        QCOMPARE(rig.scheduler.preemptions(), 0U); // fewer are let in, nobody is thrown out
        QCOMPARE(rig.scheduler.blocks().window().free(), c.kv.windowBlocks);
    }

    void forksOfManyWindowsFitWhereOneDoes()
    {
        Scheduler::Config c = withWindow(config(60, 16, {2, 32}), 24);
        c.kv.windowBlocks = windowBlocksFor({60, 16, 24}, 1, 1);
        Rig rig(c);
        const RequestId leader = rig.add(promptOf(50, 1), 80);
        for (int i = 0; i < 5; ++i)
            rig.add(promptOf(50, 1), 60 + i, 0, Rig::greedy(), 0, leader);
        while (rig.step())
            QCOMPARE(rig.scheduler.audit(), std::string());
        for (const auto &[id, job] : rig.jobs)
            QCOMPARE(job.output, rig.expected(job, 100000));
        QVERIFY(rig.copies > 0);
    }

    void aPoolOfOtherSizesKeepsTheWindows()
    {
        Rig rig(withWindow(config(60, 16, {8, 64}), 20));
        const RequestId leader = rig.add(promptOf(70, 9), 100);
        rig.add(promptOf(70, 9), 90, 0, Rig::greedy(), 0, leader);
        for (int i = 0; i < 4; ++i)
            rig.add(promptOf(30 + i * 9, i), 60);
        for (int i = 0; i < 12; ++i)
            QVERIFY(rig.step());
        for (const int blockTokens : {64, 8, 32, 16, 8, 32}) {
            rig.repage(1200 / blockTokens, blockTokens);
            QCOMPARE(rig.scheduler.preemptions(), 0U);
            QCOMPARE(rig.scheduler.audit(), std::string());
            QVERIFY(rig.step());
            QCOMPARE(totalTokens(rig.batch), 6); // nothing is computed again
        }
        rig.runAll();
        for (const auto &[id, job] : rig.jobs)
            QCOMPARE(job.output, rig.expected(job, 100000));
        // What is cached can be found in blocks of another size, with its window.
        rig.repage(100, 8);
        const RequestId again = rig.add(promptOf(70, 9), 5);
        rig.runAll();
        QCOMPARE(rig.jobs[again].cachedTokens, 64);
        QCOMPARE(rig.jobs[again].output, rig.expected(rig.jobs[again], 100000));
    }
};

QTEST_GUILESS_MAIN(TestScheduler)
#include "tst_scheduler.moc"
