// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/local_engine.h"

#include "tests/support/engine_fixture.h"

#include <QElapsedTimer>
#include <QTest>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <thread>

using namespace engine;
using namespace engine_fixture;
using namespace std::chrono_literals;

class TestEngineLife : public QObject {
    Q_OBJECT

private slots:
    void limitsApplyBetweenSteps()
    {
        Fixture f;
        QVERIFY(f.driver.load("model"));
        std::vector<Request> requests;
        for (int i = 0; i < 6; ++i)
            requests.push_back(ask(promptOf(8, i), greedy(100)));
        const auto ids = f.engine.submitAll(std::move(requests));
        QVERIFY(f.driver.until([&] { return f.answer(ids[0]).ids.size() >= 2; }));
        const std::uint64_t revision = f.engine.setLimits({2, 32});
        QVERIFY(f.driver.until([&] { return !f.driver.applied.empty(); }));
        const ParametersApplied applied = f.driver.applied.front();
        QCOMPARE(applied.revision, revision);
        QVERIFY(applied.effective.limits == (BatchLimits{2, 32}));
        QVERIFY(applied.note.empty());
        QVERIFY(f.driver.finish(ids));
        for (const StepStats &step : f.engine.takeSteps()) {
            if (step.step >= applied.step)
                QVERIFY(step.rows.size() <= 2 && step.maxNumSeqs == 2);
        }
        for (int i = 0; i < 6; ++i)
            QCOMPARE(f.answer(ids[static_cast<std::size_t>(i)]).ids, f.expected(promptOf(8, i), greedy(100)));
        (void)f.engine.setLimits({16, 4});
        QVERIFY(f.driver.until([&] { return f.driver.applied.size() == 2; }));
        QVERIFY(f.driver.applied[1].effective.limits == (BatchLimits{16, 16}));
        QVERIFY(!f.driver.applied[1].note.empty());
    }

    void aFailedPoolChangeLeavesTheOldOne()
    {
        Fixture f;
        QVERIFY(f.driver.load("model"));
        KvPoolConfig kv;
        kv.numBlocks = 40;
        (void)f.engine.setKvPool(kv);
        QVERIFY(f.driver.until([&] { return f.driver.applied.size() == 1; }));
        f.controls.poolFails = true;
        const auto id = f.engine.submit(ask(promptOf(8, 1), greedy(150)));
        kv.numBlocks = 1000;
        (void)f.engine.setKvPool(kv);
        QVERIFY(f.driver.until([&] { return f.driver.applied.size() == 2; }));
        QCOMPARE(f.driver.applied[1].effective.kv.numBlocks, 40);
        QVERIFY(f.driver.applied[1].note.find("not enough memory") != std::string::npos);
        QVERIFY(f.driver.finish({id}));
        QCOMPARE(f.answer(id).ids, f.expected(promptOf(8, 1), greedy(150)));
        QCOMPARE(f.engine.totals().blocksTotal, 40);
        QCOMPARE(f.run(ask(promptOf(8, 2), greedy(5))).ids, f.expected(promptOf(8, 2), greedy(5)));
        QCOMPARE(f.driver.applied.size(), 2U); // it is not tried again
    }

    void changesWithoutAModelAreAnswered()
    {
        Fixture f;
        (void)f.engine.setLimits({4, 64});
        (void)f.engine.setKvPool({});
        (void)f.engine.setThreads(2);
        QVERIFY(f.driver.until([&] { return f.driver.applied.size() == 3; }));
        for (const ParametersApplied &applied : f.driver.applied)
            QVERIFY(!applied.note.empty());
    }

    void aBadFileLeavesTheLoadedModelAlone()
    {
        Fixture f;
        QVERIFY(f.driver.load("model"));
        const auto id = f.engine.submit(ask(promptOf(8, 1), greedy(200)));
        f.engine.loadModel("bad.gguf", {});
        QVERIFY(f.driver.until([&] { return !f.driver.failed.empty(); }));
        QCOMPARE(f.driver.failed[0].code, ErrorCode::Refused);
        QCOMPARE(f.driver.failed[0].path, std::string("bad.gguf"));
        QVERIFY(f.driver.failed[0].message.find("wanted \"GGUF\"") != std::string::npos);
        QVERIFY(f.driver.finish({id}));
        QCOMPARE(f.answer(id).ids, f.expected(promptOf(8, 1), greedy(200)));
        QVERIFY(!f.driver.progress.empty());
    }

    void requestsGoOnWhileAModelLoadsAndEndWhenItIsReady()
    {
        Fixture f;
        Gate gate;
        std::atomic<bool> hold = false;
        std::atomic<int> stepsWhileLoading = 0;
        std::atomic<bool> loading = false;
        f.controls.duringLoad = [&](int tensor) {
            if (!hold)
                return;
            loading = true;
            if (tensor == 4)
                gate.pass();
            std::this_thread::sleep_for(60ms);
        };
        f.controls.beforeRun = [&](const Batch & /*batch*/) {
            stepsWhileLoading += loading ? 1 : 0;
            std::this_thread::sleep_for(2ms);
        };
        QVERIFY(f.driver.load("first"));
        const auto old = f.engine.submit(ask(promptOf(8, 1), greedy(0)));
        QVERIFY(f.driver.until([&] { return f.answer(old).ids.size() >= 2; }));
        hold = true;
        f.engine.loadModel("second", {});
        const auto later = f.engine.submit(ask(promptOf(8, 2), greedy(5)));
        QVERIFY(gate.waitForArrival());
        f.driver.take();
        QVERIFY(!f.answer(old).finished && f.driver.loaded.size() == 1);
        QVERIFY(stepsWhileLoading > 0);
        gate.open();
        QVERIFY(f.driver.finish({old, later}));
        QCOMPARE(f.answer(old).finished->reason, FinishReason::Cancelled);
        QCOMPARE(f.answer(later).ids, f.expected(promptOf(8, 2), greedy(5)));
        QCOMPARE(f.driver.loaded.size(), 2U);
        QCOMPARE(f.controls.alive.load(), 1);
        f.engine.unloadModel();
        QVERIFY(f.driver.until([&] { return f.driver.unloaded == 1; }));
        QCOMPARE(f.controls.alive.load(), 0);
        QCOMPARE(f.engine.totals().blocksTotal, 0);
    }

    void requestsCanBeCancelledWhileAModelLoads()
    {
        Fixture f;
        Gate gate;
        std::atomic<bool> hold = false;
        f.controls.duringLoad = [&](int /*tensor*/) {
            if (hold)
                std::this_thread::sleep_for(100ms);
        };
        f.controls.beforeRun = [](const Batch & /*batch*/) { std::this_thread::sleep_for(5ms); };
        QVERIFY(f.driver.load("first"));
        const auto id = f.engine.submit(ask(promptOf(8, 1), greedy(0)));
        QVERIFY(f.driver.until([&] { return !f.answer(id).ids.empty(); }));
        hold = true;
        f.engine.loadModel("second", {});
        f.engine.cancel(id);
        QVERIFY(f.driver.finish({id}));
        QCOMPARE(f.driver.loaded.size(), 1U); // it ended before the load did
        QVERIFY(f.driver.until([&] { return f.driver.loaded.size() == 2; }));
    }

    void aLoadCanBeCancelled()
    {
        Fixture f;
        Gate gate;
        f.controls.duringLoad = [&](int tensor) {
            if (tensor == 1)
                gate.pass();
        };
        f.engine.loadModel("model", {});
        QVERIFY(gate.waitForArrival());
        f.engine.cancelLoad();
        gate.open();
        QVERIFY(f.driver.until([&] { return !f.driver.failed.empty(); }));
        QCOMPARE(f.driver.failed[0].code, ErrorCode::Cancelled);
        f.controls.duringLoad = {};
        f.driver.failed.clear();
        f.engine.loadModel("one", {}); // a newer load takes the place of an older
        f.engine.loadModel("two", {});
        QVERIFY(f.driver.until([&] {
            return f.driver.loaded.size() + f.driver.failed.size() >= 2
                || (!f.driver.loaded.empty() && f.driver.loaded.back().path == "two");
        }));
        QVERIFY(f.driver.until([&] { return !f.driver.loaded.empty() && f.driver.loaded.back().path == "two"; }));
    }

    void aChangedFileIsToldOnce()
    {
        Fixture f;
        QVERIFY(f.driver.load("model"));
        f.controls.fileChanged = true;
        QVERIFY(f.driver.until([&] { return !f.driver.changed.empty(); }));
        QCOMPARE(f.driver.changed[0].what, std::string("the file was cut"));
        QCOMPARE(f.run(ask(promptOf(8, 1), greedy(20))).ids, f.expected(promptOf(8, 1), greedy(20)));
        std::this_thread::sleep_for(1200ms);
        f.driver.take();
        QCOMPARE(f.driver.changed.size(), 1U);
    }

    void theBlockMapIsMadeOnlyWhileWatched()
    {
        Fixture f;
        f.controls.beforeRun = [](const Batch & /*batch*/) { std::this_thread::sleep_for(2ms); };
        QVERIFY(f.driver.load("model"));
        QVERIFY(!f.engine.blockMap());
        f.engine.watch(Topic::Blocks, true);
        const auto id = f.engine.submit(ask(promptOf(40, 1), greedy(0)));
        QVERIFY(f.driver.until([&] {
            const auto map = f.engine.blockMap();
            return map && std::ranges::any_of(map->blocks, [](const BlockInfo &b) {
                       return b.state == BlockState::Used && b.tokens == 16;
                   });
        }));
        const auto map = f.engine.blockMap();
        QCOMPARE(map->blockTokens, 16);
        QCOMPARE(map->blocks.size(), 64U);
        for (std::size_t i = 0; i < map->blocks.size(); ++i) {
            const BlockInfo &block = map->blocks[i];
            if (block.state != BlockState::Used)
                continue;
            QCOMPARE(block.owner, id);
            QCOMPARE(block.refCount, 1);
            QCOMPARE(block.firstPosition % 16, 0);
            if (block.firstPosition == 16) {
                const std::vector<int> prompt = promptOf(40, 1);
                QCOMPARE(f.engine.blockText(static_cast<int>(i)),
                         FakeTokenizer().decode({prompt.begin() + 16, prompt.begin() + 32}, false));
            }
        }
        QCOMPARE(f.engine.blockText(-1), std::string());
        QCOMPARE(f.engine.blockText(64), std::string());
        f.engine.cancel(id);
        QVERIFY(f.driver.finish({id}));
        QVERIFY(f.driver.until([&] { // the last change is shown too
            const auto now = f.engine.blockMap();
            return now
                && std::ranges::none_of(now->blocks, [](const BlockInfo &b) { return b.state == BlockState::Used; })
                && std::ranges::any_of(now->blocks, [](const BlockInfo &b) { return b.state == BlockState::Cached; });
        }));
        f.engine.watch(Topic::Blocks, false);
        QVERIFY(f.driver.until([&] { return !f.engine.blockMap(); }));
        QCOMPARE(f.engine.blockText(0), std::string());
    }

    void devicesAreReadOnlyWhileWatched()
    {
        FakeControls controls;
        std::atomic<int> readings = 0;
        LocalEngine engine(FakeServedModel::loader(controls), [&readings] {
            ++readings;
            std::vector<DeviceStats> devices(1);
            devices[0].id = "cpu";
            return devices;
        });
        std::this_thread::sleep_for(50ms);
        QCOMPARE(readings.load(), 0);
        QVERIFY(!engine.devices());
        engine.watch(Topic::Devices, true);
        QTRY_VERIFY(readings >= 3);
        QCOMPARE(engine.devices()->front().id, std::string("cpu"));
        engine.watch(Topic::Devices, false);
        std::this_thread::sleep_for(50ms);
        const int before = readings;
        std::this_thread::sleep_for(500ms);
        QCOMPARE(readings.load(), before);
    }

    void theWakeCallbackComesOnceUntilEventsAreTaken()
    {
        Fixture f;
        std::atomic<int> wakes = 0;
        f.engine.setWakeCallback([&wakes] { ++wakes; });
        f.engine.loadModel("model", {});
        const auto id = f.engine.submit(ask(promptOf(8, 1), greedy(100)));
        QTRY_COMPARE(f.engine.totals().steps, 100U);
        QCOMPARE(wakes.load(), 1); // nobody took any event
        QVERIFY(f.driver.finish({id}));
        const int before = wakes;
        (void)f.run(ask(promptOf(8, 1), greedy(3)));
        QVERIFY(wakes > before);
        f.engine.setWakeCallback({});
    }

    void aLateWakeCallbackHearsOfPendingEvents()
    {
        Fixture f;
        f.engine.loadModel("model", {});
        std::this_thread::sleep_for(100ms);
        std::atomic<int> wakes = 0;
        f.engine.setWakeCallback([&wakes] { ++wakes; });
        QTRY_VERIFY(wakes >= 1);
        f.engine.setWakeCallback({});
    }

    void anIdleEngineSleeps()
    {
        Fixture f;
        QVERIFY(f.driver.load("model"));
        (void)f.run(ask(promptOf(8, 1), greedy(3)));
        const std::clock_t before = std::clock();
        std::this_thread::sleep_for(1500ms);
        const double cpuMs = 1000.0 * static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
        QVERIFY2(cpuMs < 100, qPrintable(QString::number(cpuMs)));
    }

    void shutdownIsQuickWhileBusy()
    {
        QElapsedTimer timer;
        {
            Fixture f;
            f.controls.beforeRun = [](const Batch & /*batch*/) { std::this_thread::sleep_for(5ms); };
            QVERIFY(f.driver.load("model"));
            for (int i = 0; i < 20; ++i)
                (void)f.engine.submit(ask(promptOf(50, i), greedy(0)));
            f.engine.watch(Topic::Devices, true);
            f.engine.watch(Topic::Blocks, true);
            QVERIFY(f.driver.until([&] { return f.engine.totals().steps > 2; }));
            timer.start();
        }
        QVERIFY2(timer.elapsed() < 1000, qPrintable(QString::number(timer.elapsed())));
        {
            Fixture f;
            Gate gate;
            f.controls.duringLoad = [&](int tensor) {
                if (tensor == 0)
                    gate.pass();
                else
                    std::this_thread::sleep_for(300ms);
            };
            f.engine.loadModel("model", {});
            QVERIFY(gate.waitForArrival());
            gate.open();
            timer.start();
        }
        QVERIFY2(timer.elapsed() < 1000, qPrintable(QString::number(timer.elapsed())));
    }

    void callersNeverWait()
    {
        Fixture f;
        Gate gate;
        f.controls.beforeRun = [&gate](const Batch & /*batch*/) { gate.pass(); };
        QVERIFY(f.driver.load("model"));
        const auto id = f.engine.submit(ask(promptOf(8, 1), greedy(2)));
        QVERIFY(gate.waitForArrival()); // the engine thread is stuck in a step
        QElapsedTimer timer;
        timer.start();
        const auto other = f.engine.submit(ask(promptOf(8, 2), greedy(2)));
        f.engine.setSampling(id, greedy(3));
        (void)f.engine.setLimits({8, 64});
        (void)f.engine.setKvPool({});
        (void)f.engine.setThreads(1);
        f.engine.watch(Topic::Blocks, true);
        (void)f.engine.totals();
        (void)f.engine.blockMap();
        (void)f.engine.blockText(0);
        (void)f.engine.takeSteps();
        (void)f.engine.takeEvents();
        f.engine.cancel(other);
        QVERIFY2(timer.elapsed() < 100, qPrintable(QString::number(timer.elapsed())));
        gate.open();
        QVERIFY(f.driver.finish({id, other}));
    }
};

QTEST_GUILESS_MAIN(TestEngineLife)
#include "tst_engine_life.moc"
