// SPDX-License-Identifier: GPL-3.0-or-later
// Faults of a device, injected at its runtime, under the whole engine on a tiny model.
#include "engine/runtime/local_engine.h"
#include "engine/runtime/served_loaded_model.h"
#include "kernels/cuda/runtime.h"
#include "kernels/device_lost.h"
#include "tests/cuda/faulty_ops.h"
#include "tests/cuda/short_requests.h"
#include "tests/support/engine_driver.h"
#include "tests/support/shared_data.h"

#include <QTest>

#include <memory>

using namespace engine;
using Kind = EngineNotice::Kind;
using faulty::Call;

namespace {

/// An engine whose device simt fails by plan.
struct Rig {
    explicit Rig(int fault)
        : engine(
              [this](const std::string &path, const EngineConfig &config, const auto &progress, std::stop_token stop) {
                  LoadedModel::OpsWrapper wrap;
                  if (config.device == "simt")
                      wrap = [this](std::unique_ptr<kernels::Ops>) { return faulty::faultyOps(plan); };
                  return serveLoadedModel(path, config, progress, std::move(stop), wrap);
              },
              [] { return std::vector<DeviceStats>(1); })
    {
        plan.fault = fault;
    }

    bool load(DeviceLoss rule)
    {
        EngineConfig config = short_requests::config(2);
        config.onDeviceLoss = rule;
        return driver.load(short_requests::model(), config);
    }

    /// The tokens of three requests, of which two begin alike.
    std::vector<std::vector<int>> run()
    {
        std::vector<Request> requests = short_requests::requests({20, 5, 18}, 4);
        for (Request &request : requests)
            request.sampling.temperature = 0;
        const auto ids = engine.submitAll(std::move(requests));
        if (!driver.finish(ids))
            qFatal("a request does not end");
        std::vector<std::vector<int>> tokens;
        for (const RequestId id : ids) {
            const EngineDriver::Answer &answer = driver.answers[id];
            error += answer.ordered ? answer.finished->error : "events out of order";
            tokens.push_back(answer.ids);
        }
        return tokens;
    }

    faulty::Plan plan;
    LocalEngine engine;
    EngineDriver driver{engine};
    std::string error;
};

} // namespace

class TestSimtFaults : public QObject {
    Q_OBJECT

private slots:
    void initTestCase()
    {
#if defined(__SANITIZE_THREAD__)
        QSKIP("whole models take minutes under TSan; each kernel has a test of its own there, and tst_engine_faults "
              "the engine");
#endif
    }

    void everyCallMayFail_data()
    {
        QTest::addColumn<int>("fault");
        QTest::newRow("launch") << int(faulty::Launch);
        QTest::newRow("memory") << int(faulty::Memory);
        QTest::newRow("lost") << int(faulty::Lost);
    }

    /// One fault at a call of the device's runtime, for calls all over a run: the same tokens as without.
    void everyCallMayFail()
    {
        QFETCH(int, fault);
        Rig plain(fault);
        QVERIFY(plain.load(DeviceLoss::Cpu));
        plain.plan.failing = 1 << 30; // counts
        const auto wanted = plain.run();
        QCOMPARE(plain.error, std::string());
        const int calls = plain.plan.calls;
        QVERIFY(calls > 20);
        const int step = shared_data::fullTier() ? 1 : calls / 4;
        for (int call = 1; call <= calls; call += step) {
            Rig rig(fault);
            QVERIFY(rig.load(DeviceLoss::Cpu));
            rig.plan.failing = call;
            const auto found = rig.run();
            QVERIFY2(rig.error.empty() && found == wanted,
                     qPrintable(QString("call %1: %2").arg(call).arg(rig.error.c_str())));
            if (fault == faulty::Lost)
                QCOMPARE(rig.driver.applied.back().effective.device, std::string("cpu"));
        }
    }

    void graphsMayFail_data()
    {
        QTest::addColumn<int>("fault");
        QTest::addColumn<int>("call");
        for (const auto &[name, call] : {std::pair{"beginCapture", Call::BeginCapture},
                                         {"endCapture", Call::EndCapture},
                                         {"launch", Call::LaunchGraph}}) {
            QTest::addRow("%s refused", name) << int(faulty::Launch) << int(call);
            QTest::addRow("%s lost", name) << int(faulty::Lost) << int(call);
        }
    }

    /// A device that refuses a graph goes on without, and says so once; one that is lost is lost.
    void graphsMayFail()
    {
        QFETCH(int, fault);
        QFETCH(int, call);
        Rig plain(fault);
        QVERIFY(plain.load(DeviceLoss::Cpu));
        plain.plan.only = static_cast<Call>(call);
        plain.plan.failing = 1 << 30; // counts
        const auto wanted = plain.run();
        QVERIFY(plain.plan.calls > 0 && plain.driver.notices.empty());
        Rig rig(fault);
        QVERIFY(rig.load(DeviceLoss::Cpu));
        rig.plan.only = plain.plan.only;
        rig.plan.failing = 1;
        QCOMPARE(rig.run(), wanted);
        QCOMPARE(rig.error, std::string());
        QCOMPARE(rig.plan.lost, fault == faulty::Lost);
        QVERIFY(!rig.driver.notices.empty());
        if (fault == faulty::Launch) {
            QCOMPARE(rig.driver.notices.size(), std::size_t{1});
            QCOMPARE(rig.driver.notices[0].kind, Kind::GraphsOff);
            QVERIFY(rig.driver.notices[0].message.ends_with("a kernel was not launched"));
        }
    }

    void aLostDeviceWaitsForTheUsersWord()
    {
        Rig plain(faulty::Lost);
        QVERIFY(plain.load(DeviceLoss::Ask));
        const auto wanted = plain.run();
        Rig rig(faulty::Lost);
        QVERIFY(rig.load(DeviceLoss::Ask));
        rig.plan.failing = 15;
        Request request;
        request.ids = std::vector<int>{3, 4, 5, 6, 7};
        request.sampling.temperature = 0;
        request.sampling.maxTokens = 4;
        request.sampling.ignoreEos = true;
        const RequestId id = rig.engine.submit(std::move(request));
        QVERIFY(rig.driver.until([&] { return !rig.driver.notices.empty(); }));
        QCOMPARE(rig.driver.notices[0].kind, Kind::DeviceLost);
        QVERIFY(!rig.driver.answers[id].finished);
        rig.engine.continueOn("cpu");
        QVERIFY(rig.driver.finish({id}));
        QCOMPARE(rig.driver.answers[id].ids, wanted[1]);
        QVERIFY(rig.driver.answers[id].ordered);
    }
};

QTEST_GUILESS_MAIN(TestSimtFaults)
#include "tst_simt_faults.moc"
