// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/thermal_rule.h"
#include "tests/support/engine_fixture.h"

#include <QScopeGuard>
#include <QTest>

#include <algorithm>
#include <atomic>

using namespace engine;
using namespace engine_fixture;
using namespace std::chrono_literals;

/// Steps that hang and devices that get hot.
class TestEngineGuard : public QObject {
    Q_OBJECT

private slots:
    void aStepThatHangsIsTold()
    {
        Fixture f;
        Gate gate;
        std::atomic<int> steps = 0;
        f.controls.beforeRun = [&](const Batch & /*batch*/) {
            if (++steps == 4)
                gate.pass();
        };
        const auto open = qScopeGuard([&gate] { gate.open(); });
        EngineConfig config;
        config.stepTimeoutSeconds = 0.1;
        QVERIFY(f.driver.load("model", config));
        const auto id = f.engine.submit(ask(promptOf(8, 1), greedy(20)));
        QVERIFY(f.driver.until([&] { return !f.driver.notices.empty(); })); // while the engine thread hangs
        QCOMPARE(f.driver.notices[0].kind, EngineNotice::Kind::StepStalled);
        QCOMPARE(f.driver.notices[0].step, 4U);
        QVERIFY2(f.driver.notices[0].message.starts_with("step 4 has not come to its end in "),
                 f.driver.notices[0].message.c_str());
        std::this_thread::sleep_for(300ms);
        f.driver.take();
        QCOMPARE(f.driver.notices.size(), 1U); // once
        gate.open();
        QVERIFY(f.driver.finish({id}));
        QVERIFY(f.driver.until([&] { return f.driver.notices.size() == 2; }));
        QCOMPARE(f.driver.notices[1].kind, EngineNotice::Kind::StepResumed);
        QCOMPARE(f.answer(id).ids, f.expected(promptOf(8, 1), greedy(20)));
    }

    void slowStepsWithinTheirTimeAreNotTold()
    {
        Fixture f;
        f.controls.beforeRun = [](const Batch & /*batch*/) { std::this_thread::sleep_for(20ms); };
        EngineConfig config;
        config.stepTimeoutSeconds = 5;
        QVERIFY(f.driver.load("model", config));
        (void)f.run(ask(promptOf(8, 1), greedy(20)));
        QVERIFY(f.driver.notices.empty());
    }

    void theRuleLowersInStepsAndRestores()
    {
        ThermalRule rule;
        const BatchLimits wanted{4, 1000};
        QVERIFY(!rule.update(84.9) && !rule.update(85.0));
        QVERIFY(rule.limits(wanted) == wanted);
        QVERIFY(rule.update(85.1));
        QCOMPARE(rule.limits(wanted).maxNumBatchedTokens, 750);
        QVERIFY(rule.update(95));
        QCOMPARE(rule.limits(wanted).maxNumBatchedTokens, 562);
        QVERIFY(!rule.update(82)); // between the two it stays
        QVERIFY(!rule.update(80));
        QVERIFY(rule.update(79.9));
        QCOMPARE(rule.limits(wanted).maxNumBatchedTokens, 750);
        QVERIFY(rule.update(60));
        QVERIFY(rule.limits(wanted) == wanted);
        QVERIFY(!rule.update(60));
        for (int i = 0; i < 100; ++i)
            (void)rule.update(99);
        QVERIFY(rule.limits(wanted).maxNumBatchedTokens >= 100);
        QCOMPARE(rule.limits({64, 80}).maxNumBatchedTokens, 64); // one for each sequence
    }

    void aHotDeviceLowersTheBudgetUntilItIsCool()
    {
        std::atomic<double> celsius = 70;
        FakeControls controls;
        controls.beforeRun = [](const Batch & /*batch*/) { std::this_thread::sleep_for(1ms); };
        LocalEngine engine(
            FakeServedModel::loader(controls), [] { return std::vector<DeviceStats>(1); },
            [&celsius] { return std::optional<double>(celsius.load()); }, 5ms);
        EngineDriver driver(engine);
        EngineConfig config;
        config.limits = {4, 1000};
        QVERIFY(driver.load("model", config));
        const FakeModel reference(FakeTokenizer::size);
        const auto id = engine.submit(ask(promptOf(8, 1), greedy(0)));
        QVERIFY(driver.until([&] { return driver.answers[id].ids.size() > 10; }));
        QVERIFY(driver.applied.empty());
        celsius = 91;
        QVERIFY(driver.until([&] { return driver.applied.size() >= 2; }));
        QCOMPARE(driver.notices[0].kind, EngineNotice::Kind::Overheated);
        QVERIFY(driver.notices[0].message.find("91 C") != std::string::npos);
        QCOMPARE(driver.applied[0].revision, 0U);
        QCOMPARE(driver.applied[0].effective.limits.maxNumBatchedTokens, 750);
        QVERIFY(driver.applied[0].note.find("750 of 1000") != std::string::npos);
        QCOMPARE(driver.applied[1].effective.limits.maxNumBatchedTokens, 562);
        celsius = 75;
        QVERIFY(driver.until([&] { return driver.applied.back().effective.limits.maxNumBatchedTokens == 1000; }));
        QVERIFY(driver.until([&] { return driver.notices.size() == 2; }));
        QCOMPARE(driver.notices[1].kind, EngineNotice::Kind::Cooled);
        QVERIFY(driver.finish({id}));
        QCOMPARE(driver.answers[id].ids, reference.alone(promptOf(8, 1), greedy(0), 0, 0, 256));
    }

    void theMemoryRuleHasTwoThresholds()
    {
        MemoryRule rule;
        QVERIFY(!rule.update(0) && !rule.update(1)); // not begun
        rule.begin(1000, 0.2);
        QCOMPARE(rule.kept(), std::size_t{200});
        QVERIFY(!rule.update(150) && !rule.update(100));
        QVERIFY(rule.update(99) && rule.isShort());
        QVERIFY(!rule.update(0) && !rule.update(149) && rule.isShort()); // 0 is no reading
        QVERIFY(rule.update(150) && !rule.isShort());
    }

    /// With scripted memory: those that run go on, the others follow one by one, until there is room again.
    void shortMemoryHoldsAdmissions()
    {
        std::atomic<std::size_t> available = std::size_t{1} << 30U;
        FakeControls controls;
        controls.beforeRun = [](const Batch & /*batch*/) { std::this_thread::sleep_for(1ms); };
        EngineProbes probes;
        probes.availableMemory = [&available] { return available.load(); };
        LocalEngine engine(
            FakeServedModel::loader(controls), [] { return std::vector<DeviceStats>(1); }, {}, 5ms, probes);
        EngineDriver driver(engine);
        QVERIFY(driver.load("model"));
        const auto running = engine.submit(ask(promptOf(8, 1), greedy(0)));
        QVERIFY(driver.until([&] { return driver.answers[running].ids.size() > 3; }));
        available = std::size_t{50} << 20U;
        QVERIFY(driver.until([&] { return driver.notices.size() == 1; }));
        QCOMPARE(driver.notices[0].kind, EngineNotice::Kind::MemoryShort);
        QVERIFY2(driver.notices[0].message.find("50 MiB") != std::string::npos, driver.notices[0].message.c_str());
        std::vector<RequestId> held;
        for (int i = 0; i < 3; ++i)
            held.push_back(engine.submit(ask(promptOf(9, i), greedy(20))));
        QVERIFY(driver.finish({running}));
        QVERIFY(driver.finish({held[0]}));
        QCOMPARE(engine.totals().maxRunning, 1);
        QCOMPARE(engine.totals().memory.available, std::size_t{50} << 20U);
        available = std::size_t{1} << 30U;
        QVERIFY(driver.finish(held));
        for (int i = 0; i < 3; ++i)
            QCOMPARE(driver.answers[held[static_cast<std::size_t>(i)]].ids,
                     FakeModel(FakeTokenizer::size).alone(promptOf(9, i), greedy(20), 0, 20, 256));
        const auto later = engine.submit(ask(promptOf(8, 1), greedy(0)));
        const auto beside = engine.submit(ask(promptOf(8, 2), greedy(0)));
        QVERIFY(driver.until([&] { return driver.notices.size() == 2; }));
        QCOMPARE(driver.notices[1].kind, EngineNotice::Kind::MemoryBack);
        QVERIFY(driver.finish({later, beside}));
    }

    /// An audit that fails makes the pool anew, once, and says so; what comes next is right.
    void aFailedAuditMakesThePoolAnew()
    {
        std::atomic<int> faults = 0;
        FakeControls controls;
        EngineProbes probes;
        probes.audit = [&faults](const Scheduler &scheduler) {
            return faults.exchange(0) > 0 ? std::string("3 blocks are still in use") : scheduler.auditIdle();
        };
        LocalEngine engine(
            FakeServedModel::loader(controls), [] { return std::vector<DeviceStats>(1); }, {}, 5ms, probes);
        EngineDriver driver(engine);
        QVERIFY(driver.load("model"));
        const auto ask40 = [&] {
            const RequestId id = engine.submit(ask(promptOf(40, 1), greedy(6)));
            return driver.finish({id}) ? id : 0;
        };
        const FakeModel reference(FakeTokenizer::size);
        const std::vector<int> right = reference.alone(promptOf(40, 1), greedy(6), 0, 6, 256);
        QVERIFY(ask40() != 0);
        faults = 1;
        const RequestId second = ask40();
        QCOMPARE(driver.answers[second].finished->usage.cachedTokens, 32);
        QVERIFY(driver.until([&] { return driver.notices.size() == 1; }));
        QCOMPARE(driver.notices[0].kind, EngineNotice::Kind::AuditFailed);
        QVERIFY2(driver.notices[0].message.find("3 blocks are still in use") != std::string::npos
                     && driver.notices[0].message.find("made anew") != std::string::npos,
                 driver.notices[0].message.c_str());
        const RequestId third = ask40();
        QCOMPARE(driver.answers[third].finished->usage.cachedTokens, 0); // nothing of the old pool is trusted
        QCOMPARE(driver.answers[third].ids, right);
        QCOMPARE(driver.answers[ask40()].finished->usage.cachedTokens, 32);
        QCOMPARE(driver.notices.size(), 1U);
        QCOMPARE(engine.totals().blocksFree, engine.totals().blocksTotal);
    }
};

QTEST_GUILESS_MAIN(TestEngineGuard)
#include "tst_engine_guard.moc"
