// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/device_lost.h"
#include "tests/support/engine_fixture.h"

#include <QTest>

#include <algorithm>
#include <atomic>
#include <new>
#include <stdexcept>

using namespace engine;
using namespace engine_fixture;
using Kind = EngineNotice::Kind;

namespace {

enum Fault { Launch, Memory, HostMemory, Lost };

[[noreturn]] void raise(int fault)
{
    if (fault == Launch)
        throw Error(ErrorCode::Internal, "a kernel was not launched");
    if (fault == Memory)
        throw Error(ErrorCode::OutOfMemory, "not enough memory on the device");
    if (fault == HostMemory)
        throw std::bad_alloc();
    throw kernels::DeviceLost("device cuda:0 was lost");
}

SamplingParams seeded(int maxTokens, std::uint64_t seed)
{
    SamplingParams params = greedy(maxTokens);
    params.temperature = 1;
    params.seed = seed;
    return params;
}

/// Five requests of all kinds, more than run at once, with a common prefix among two.
struct Workload {
    std::vector<std::vector<int>> prompts{promptOf(40, 1), promptOf(3, 2), promptOf(40, 1), promptOf(21, 4),
                                          promptOf(9, 5)};
    std::vector<SamplingParams> samplings{greedy(12), seeded(9, 7), seeded(6, 8), greedy(3), greedy(15)};

    std::vector<RequestId> submit(LocalEngine &engine) const
    {
        std::vector<Request> requests;
        for (std::size_t i = 0; i < prompts.size(); ++i)
            requests.push_back(ask(prompts[i], samplings[i]));
        return engine.submitAll(std::move(requests));
    }
    /// What differs from answers that nothing disturbed; empty when nothing does.
    [[nodiscard]] std::string compare(Fixture &f, const std::vector<RequestId> &ids) const
    {
        for (std::size_t i = 0; i < ids.size(); ++i) {
            const EngineDriver::Answer &answer = f.answer(ids[i]);
            if (!answer.ordered || !answer.finished || answer.finished->reason != FinishReason::Length)
                return "request " + std::to_string(ids[i])
                    + " did not end as it should: " + (answer.finished ? answer.finished->error : "no end");
            if (answer.ids != f.expected(prompts[i], samplings[i]))
                return "request " + std::to_string(ids[i]) + " got other tokens";
        }
        return f.allBlocksFree() ? "" : "blocks are missing";
    }
};

EngineConfig smallSteps()
{
    EngineConfig config;
    config.limits = {3, 16};
    config.kv.blockTokens = 8;
    config.kv.numBlocks = 24;
    return config;
}

} // namespace

/// Steps that fail, memory that runs out and devices that are lost, at every call. Tokens are those of a run without
/// faults: none is lost and none comes twice.
class TestEngineFaults : public QObject {
    Q_OBJECT

private slots:
    void oneFaultAtAnyStepChangesNothing_data()
    {
        QTest::addColumn<int>("fault");
        QTest::newRow("launch") << int(Launch);
        QTest::newRow("memory") << int(Memory);
        QTest::newRow("memory of the host") << int(HostMemory);
        QTest::newRow("lost") << int(Lost);
    }

    void oneFaultAtAnyStepChangesNothing()
    {
        QFETCH(int, fault);
        const Workload work;
        int reached = 1;
        for (int at = 1; reached >= at; ++at) {
            Fixture f;
            std::atomic<int> calls = 0;
            f.controls.beforeRun = [&](const Batch & /*batch*/) {
                if (++calls == at)
                    raise(fault);
            };
            EngineConfig config = smallSteps();
            config.onDeviceLoss = DeviceLoss::Cpu;
            QVERIFY(f.driver.load("model", config));
            const auto ids = work.submit(f.engine);
            QVERIFY(f.driver.finish(ids));
            const std::string wrong = work.compare(f, ids);
            QVERIFY2(wrong.empty(), qPrintable(QString("call %1: %2").arg(at).arg(wrong.c_str())));
            reached = calls;
            if (fault == Lost && reached >= at) {
                QCOMPARE(f.driver.notices.size(), std::size_t(2));
                QCOMPARE(f.driver.notices[0].kind, Kind::DeviceLost);
                QCOMPARE(f.driver.notices[1].kind, Kind::DeviceReplaced);
                QCOMPARE(f.driver.applied.back().effective.device, std::string("cpu"));
                QCOMPARE(f.driver.loaded.size(), std::size_t(1));
            }
        }
        QVERIFY(reached > 10);
    }

    void devicesLostAgainAndAgain()
    {
        const Workload work;
        Fixture f;
        int calls = 0;
        f.controls.beforeRun = [&](const Batch & /*batch*/) {
            if (++calls % 7 == 0)
                raise(Lost);
        };
        EngineConfig config = smallSteps();
        config.onDeviceLoss = DeviceLoss::Cpu;
        QVERIFY(f.driver.load("model", config));
        const auto ids = work.submit(f.engine);
        QVERIFY(f.driver.finish(ids));
        QCOMPARE(work.compare(f, ids), std::string());
        QVERIFY(f.controls.alive <= 2); // the one that computes and the one whose vocabulary is in use
    }

    void aLostDeviceWaitsForTheUsersWord()
    {
        const Workload work;
        Fixture f;
        std::atomic<int> calls = 0;
        f.controls.beforeRun = [&](const Batch & /*batch*/) {
            if (++calls == 6)
                raise(Lost);
        };
        QVERIFY(f.driver.load("model", smallSteps()));
        const auto ids = work.submit(f.engine);
        QVERIFY(f.driver.until([&] { return !f.driver.notices.empty(); }));
        QCOMPARE(f.driver.notices[0].kind, Kind::DeviceLost);
        QVERIFY2(f.driver.notices[0].message.starts_with("device cuda:0 was lost; 5 requests wait"),
                 f.driver.notices[0].message.c_str());
        const auto late = f.engine.submit(ask(promptOf(5, 6), greedy(4))); // is taken, and waits too
        QVERIFY(f.driver.until([&] { return f.answer(late).promptTokens == 5; }));
        QCOMPARE(calls.load(), 6);
        QVERIFY(std::ranges::none_of(ids, [&](RequestId id) { return f.answer(id).finished.has_value(); }));
        f.engine.continueOn("cpu");
        QVERIFY(f.driver.finish(ids));
        QVERIFY(f.driver.finish({late}));
        QCOMPARE(work.compare(f, ids), std::string());
        QCOMPARE(f.answer(late).ids, f.expected(promptOf(5, 6), greedy(4)));
        f.engine.continueOn("cpu"); // nothing is lost: nothing happens
        (void)f.run(ask(promptOf(5, 6), greedy(4)));
        QCOMPARE(f.driver.notices.size(), std::size_t(2));
    }

    void requestsKeepWaitingWhenTheOtherDeviceFailsToo()
    {
        const Workload work;
        Fixture f;
        std::atomic<int> calls = 0;
        std::atomic<bool> refuses = false;
        f.controls.beforeRun = [&](const Batch & /*batch*/) {
            if (++calls == 6)
                raise(Lost);
        };
        f.controls.duringLoad = [&](int /*tensor*/) {
            if (refuses)
                throw Error(ErrorCode::NoDevice, "device cuda:9 does not exist");
        };
        QVERIFY(f.driver.load("model", smallSteps()));
        const auto ids = work.submit(f.engine);
        QVERIFY(f.driver.until([&] { return !f.driver.notices.empty(); }));
        refuses = true;
        f.engine.continueOn("cuda:9");
        QVERIFY(f.driver.until([&] { return f.driver.notices.size() == 2; }));
        QCOMPARE(f.driver.notices[1].kind, Kind::DeviceLost);
        QCOMPARE(
            f.driver.notices[1].message,
            std::string("device cuda:0 was lost; device cuda:9 cannot take its place: device cuda:9 does not exist"));
        f.engine.cancel(ids[4]);
        QVERIFY(f.driver.finish({ids[4]}));
        QCOMPARE(f.answer(ids[4]).finished->reason, FinishReason::Cancelled);
        refuses = false;
        f.engine.continueOn("cpu");
        const std::vector<RequestId> rest(ids.begin(), ids.begin() + 4);
        QVERIFY(f.driver.finish(rest));
        QCOMPARE(work.compare(f, rest), std::string());
    }

    void withoutAWordToWaitForRequestsEnd()
    {
        const Workload work;
        Fixture f;
        int calls = 0;
        f.controls.beforeRun = [&](const Batch & /*batch*/) {
            if (++calls == 6)
                raise(Lost);
        };
        EngineConfig config = smallSteps();
        config.onDeviceLoss = DeviceLoss::Fail;
        QVERIFY(f.driver.load("model", config));
        const auto ids = work.submit(f.engine);
        QVERIFY(f.driver.finish(ids));
        for (const RequestId id : ids) {
            const auto &finished = f.answer(id).finished;
            if (finished->reason == FinishReason::Length)
                continue; // had ended before
            QCOMPARE(finished->reason, FinishReason::Failed);
            QCOMPARE(finished->code, ErrorCode::Internal);
            QCOMPARE(finished->error, std::string("device cuda:0 was lost"));
        }
        QCOMPARE(f.run(ask(promptOf(5, 6), greedy(4))).finished->code, ErrorCode::Internal);
        QVERIFY(f.driver.load("model", config)); // begins anew
        QCOMPARE(f.run(ask(promptOf(5, 6), greedy(4))).ids, f.expected(promptOf(5, 6), greedy(4)));
    }

    /// A step that is too large for the memory becomes smaller until it fits.
    void stepsShrinkUntilTheyFit()
    {
        Fixture f;
        f.controls.beforeRun = [&](const Batch &batch) {
            if (batch.forward.tokenIds.size() > 9)
                raise(Memory);
        };
        EngineConfig config = smallSteps();
        QVERIFY(f.driver.load("model", config));
        const EngineDriver::Answer &answer = f.run(ask(promptOf(60, 1), greedy(8)));
        QCOMPARE(answer.ids, f.expected(promptOf(60, 1), greedy(8)));
        QCOMPARE(f.driver.notices.size(), std::size_t(1));
        QCOMPARE(f.driver.notices[0].kind, Kind::PoolShrunk);
        QCOMPARE(f.driver.applied.back().effective.limits.maxNumBatchedTokens, 8);
        QCOMPARE(f.driver.applied.back().effective.kv.numBlocks, 12);
    }

    void aRequestThatFitsNowhereEndsAlone()
    {
        const Workload work;
        Fixture f;
        f.controls.beforeRun = [&](const Batch &batch) {
            if (std::ranges::any_of(batch.rows, [](const BatchRow &row) { return row.request == 4; }))
                raise(Memory);
        };
        QVERIFY(f.driver.load("model", smallSteps()));
        auto ids = work.submit(f.engine);
        QVERIFY(f.driver.finish(ids));
        QCOMPARE(f.answer(4).finished->code, ErrorCode::OutOfMemory);
        for (std::size_t i : {0U, 1U, 2U, 4U})
            QCOMPARE(f.answer(ids[i]).ids, f.expected(work.prompts[i], work.samplings[i]));
        QVERIFY(f.allBlocksFree());
    }
};

QTEST_GUILESS_MAIN(TestEngineFaults)
#include "tst_engine_faults.moc"
