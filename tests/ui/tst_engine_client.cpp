// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/fake_engine.h"
#include "ui/engine_client.h"

#include <QSet>
#include <QSignalSpy>
#include <QTest>

#include <cmath>
#include <thread>

using ui::EngineClient;
using ui::EngineSetting;

namespace {

/// A client over a fake engine with a model loaded.
struct Fixture {
    FakeEngine *fake;
    EngineClient client;

    explicit Fixture(FakeEngineScript script = {}, bool load = true)
        : Fixture(new FakeEngine(std::move(script)), load)
    {
    }

private:
    Fixture(FakeEngine *engine, bool load)
        : fake(engine)
        , client(std::unique_ptr<engine::Engine>(engine))
    {
        if (!load)
            return;
        QSignalSpy loaded(&client, &EngineClient::modelLoaded);
        client.loadModel(QStringLiteral("/models/example.gguf"));
        loaded.wait();
    }
};

engine::Request ask(int maxTokens)
{
    engine::Request request;
    request.prompt = "why";
    request.sampling.maxTokens = maxTokens;
    return request;
}

engine::TokenEvent token(quint64 id, const std::string &text)
{
    engine::TokenEvent event;
    event.id = id;
    event.text = text;
    event.ids = {1};
    return event;
}

} // namespace

class TestEngineClient : public QObject {
    Q_OBJECT
private slots:
    void oneRequestEndToEnd()
    {
        Fixture f;
        QSignalSpy accepted(&f.client, &EngineClient::requestAccepted);
        QSignalSpy finished(&f.client, &EngineClient::requestFinished);
        QSignalSpy appended(&f.client, &EngineClient::textAppended);
        const quint64 id = f.client.submit(ask(5));
        QVERIFY(accepted.isEmpty()); // never inside the call
        QVERIFY(f.client.isActive(id));
        for (int i = 0; i < 8; ++i)
            f.fake->step();
        QTRY_COMPARE(finished.count(), 1);
        QCOMPARE(accepted.count(), 1);
        QCOMPARE(accepted[0][1].toInt(), 24);
        QString text;
        int tokens = 0;
        for (const auto &arguments : appended) {
            text += arguments[1].toString();
            tokens += arguments[2].toInt();
            QCOMPARE(arguments[3].toInt(), 16);
        }
        QCOMPARE(tokens, 5);
        QCOMPARE(text, QStringLiteral("A block is a page"));
        QVERIFY(!f.client.isActive(id));
    }

    void textOfARequestArrivesBeforeItsEnd()
    {
        Fixture f;
        QStringList order;
        connect(&f.client, &EngineClient::textAppended, this,
                [&](quint64 id, const QString &text) { order << QString::number(id) + text; });
        connect(&f.client, &EngineClient::requestFinished, this,
                [&](quint64 id) { order << QString::number(id) + u'.'; });
        engine::RequestFinished end;
        end.id = 7;
        f.fake->push(token(7, "a"));
        f.fake->push(token(8, "x"));
        f.fake->push(token(7, "b"));
        f.fake->push(end);
        f.fake->push(token(8, "y"));
        QTRY_COMPARE(order.size(), 3);
        QCOMPARE(order, QStringList({QStringLiteral("7ab"), QStringLiteral("7."), QStringLiteral("8xy")}));
    }

    void reasoningAndCallsHaveSignalsOfTheirOwn()
    {
        Fixture f;
        QStringList order;
        connect(&f.client, &EngineClient::reasoningAppended, this,
                [&](quint64, const QString &text) { order << QStringLiteral("thought ") + text; });
        connect(&f.client, &EngineClient::textAppended, this, [&](quint64, const QString &text, int tokens) {
            order << QStringLiteral("text %1 of %2").arg(text).arg(tokens);
        });
        connect(&f.client, &EngineClient::toolCallsAppended, this,
                [&](quint64, const std::vector<engine::ToolCallDelta> &calls) {
                    for (const engine::ToolCallDelta &call : calls)
                        order << QStringLiteral("call %1 %2 %3")
                                     .arg(call.index)
                                     .arg(QString::fromStdString(call.name), QString::fromStdString(call.arguments));
                });
        engine::TokenEvent first = token(7, {});
        first.reasoning = "let me ";
        engine::TokenEvent second = token(7, "Yes");
        second.reasoning = "see";
        engine::TokenEvent third = token(7, {});
        third.toolCalls = {{0, "find", ""}, {0, "", "{}"}};
        for (const engine::TokenEvent &event : {first, second, third})
            f.fake->push(event);
        QTRY_COMPARE(order.size(), 4);
        QCOMPARE(order,
                 QStringList({QStringLiteral("thought let me see"), QStringLiteral("text Yes of 3"),
                              QStringLiteral("call 0 find "), QStringLiteral("call 0  {}")}));
    }

    void burstsBecomeOneSignal()
    {
        Fixture f;
        QTest::qWait(20);
        QSignalSpy appended(&f.client, &EngineClient::textAppended);
        const int wakesBefore = f.fake->wakes();
        for (int i = 0; i < 1000; ++i)
            f.fake->push(token(3, "."));
        QTRY_COMPARE(appended.count(), 1);
        QCOMPARE(appended[0][1].toString().size(), 1000);
        QCOMPARE(appended[0][2].toInt(), 1000);
        QCOMPARE(f.fake->wakes() - wakesBefore, 1);
    }

    void nothingIsLostFromAnotherThread()
    {
        Fixture f;
        qsizetype received = 0;
        connect(&f.client, &EngineClient::textAppended, this,
                [&](quint64, const QString &text) { received += text.size(); });
        std::jthread pusher([&] {
            for (int i = 0; i < 20000; ++i)
                f.fake->push(token(3, "."));
        });
        QTRY_COMPARE_WITH_TIMEOUT(received, 20000, 20000);
    }

    void coloursDifferAndStay()
    {
        Fixture f;
        QSet<int> series;
        QList<quint64> ids;
        for (int i = 0; i < 8; ++i) {
            ids << f.client.submit(ask(3));
            series << f.client.seriesOf(ids.constLast());
        }
        QCOMPARE(series.size(), 8);
        const int first = f.client.seriesOf(ids[0]);
        f.client.cancel(ids[0]);
        QTRY_VERIFY(!f.client.isActive(ids[0]));
        QCOMPARE(f.client.seriesOf(f.client.submit(ask(3))), first); // the only unused one
        QCOMPARE(f.client.seriesOf(ids[0]), first);
    }

    void samplingReachesRunningRequests()
    {
        Fixture f;
        engine::Request request = ask(50);
        request.sampling.seed = 9;
        request.sampling.stop = {"END"};
        const quint64 id = f.client.submit(request);
        engine::SamplingParams hot = f.client.sampling();
        hot.temperature = 1.5;
        QSignalSpy changed(&f.client, &EngineClient::samplingChanged);
        f.client.setSampling(hot);
        f.client.setSampling(hot); // no change, no command
        QCOMPARE(changed.count(), 1);
        const engine::SamplingParams got = f.fake->lastSampling().at(id);
        QCOMPARE(got.temperature, 1.5);
        QVERIFY(got.seed == std::optional<std::uint64_t>(9));
        QVERIFY(got.stop == std::vector<std::string>{"END"});
    }

    void refusedSamplingIsHandedOn()
    {
        Fixture f;
        QSignalSpy refused(&f.client, &EngineClient::samplingRefused);
        f.fake->push(engine::SamplingRefused{7, "top-p: found 7, wanted 0 to 1"});
        QTRY_COMPARE(refused.count(), 1);
        QCOMPARE(refused[0][0].toULongLong(), 7ULL);
        QCOMPARE(refused[0][1].toString(), QStringLiteral("top-p: found 7, wanted 0 to 1"));
    }

    void samplingOutOfRangeIsBroughtIn()
    {
        Fixture f;
        const quint64 id = f.client.submit(ask(50));
        engine::SamplingParams wild = f.client.sampling();
        wild.temperature = 99;
        wild.topP = -1;
        wild.minP = std::nan("");
        f.client.setSampling(wild);
        QCOMPARE(f.client.requestedSampling().temperature, 99.0);
        for (const engine::SamplingParams &used : {f.client.sampling(), f.fake->lastSampling().at(id)}) {
            QCOMPARE(used.temperature, 5.0);
            QCOMPARE(used.topP, 0.0);
            QCOMPARE(used.minP, 0.0);
        }
    }

    void pendingUntilApplied()
    {
        FakeEngineScript script;
        script.applyNote = "lowered to 32: the pool holds no more";
        Fixture f(script);
        engine::BatchLimits limits;
        limits.maxNumSeqs = 99;
        f.client.setLimits(limits);
        QVERIFY(f.client.isPending(EngineSetting::Limits));
        QVERIFY(!f.client.isPending(EngineSetting::KvPool));
        QSignalSpy applied(&f.client, &EngineClient::parametersApplied);
        QTRY_COMPARE(applied.count(), 1);
        QVERIFY(!f.client.isPending(EngineSetting::Limits));
        QCOMPARE(f.client.note(EngineSetting::Limits), QStringLiteral("lowered to 32: the pool holds no more"));
        QCOMPARE(f.client.model()->effective.limits.maxNumSeqs, 99);
    }

    void settingsWithoutAModelWaitForTheLoad()
    {
        Fixture f(FakeEngineScript(), false);
        engine::KvPoolConfig kv;
        kv.blockTokens = 32;
        QCOMPARE(f.client.setKvPool(kv), quint64(0));
        QVERIFY(!f.client.isPending(EngineSetting::KvPool));
        f.client.loadModel(QStringLiteral("/models/example.gguf"));
        QTRY_VERIFY(f.client.model().has_value());
        QCOMPARE(f.fake->config().kv.blockTokens, 32);
    }

    void knobsMovedDuringALoadAreSentAfterIt()
    {
        Fixture f(FakeEngineScript(), false);
        f.client.loadModel(QStringLiteral("/models/example.gguf"));
        engine::BatchLimits limits;
        limits.maxNumSeqs = 5;
        f.client.setLimits(limits);
        QTRY_VERIFY(f.client.model().has_value());
        QTRY_COMPARE(f.fake->config().limits.maxNumSeqs, 5);
    }

    void badFileLeavesTheModelAlone()
    {
        Fixture f;
        QSignalSpy failed(&f.client, &EngineClient::loadFailed);
        f.client.loadModel(QStringLiteral("/models/broken.bad"));
        QVERIFY(f.client.isLoading());
        QTRY_COMPARE(failed.count(), 1);
        QVERIFY(failed[0][1].toString().contains(QStringLiteral("wanted 'GGUF'")));
        QCOMPARE(failed[0][2].toBool(), false);
        QVERIFY(!f.client.isLoading());
        QCOMPARE(QString::fromStdString(f.client.model()->path), QStringLiteral("/models/example.gguf"));
    }

    void submitWithoutAModelEndsWithAReason()
    {
        Fixture f(FakeEngineScript(), false);
        QSignalSpy finished(&f.client, &EngineClient::requestFinished);
        f.client.submit(ask(3));
        QTRY_COMPARE(finished.count(), 1);
        const auto result = finished[0][1].value<engine::RequestFinished>();
        QVERIFY(result.reason == engine::FinishReason::Failed);
        QVERIFY(!result.error.empty());
        QCOMPARE(f.client.activeRequests(), 0);
    }

    void topicsAreWatchedOnlyWhileSomeoneLooks()
    {
        Fixture f;
        f.client.watchBlocks(true);
        f.client.watchBlocks(true);
        QVERIFY(f.fake->isWatched(engine::Topic::Blocks));
        QSignalSpy maps(&f.client, &EngineClient::blockMapChanged);
        QTRY_VERIFY(!maps.isEmpty());
        f.client.watchBlocks(false);
        QVERIFY(f.fake->isWatched(engine::Topic::Blocks));
        f.client.watchBlocks(false);
        QVERIFY(!f.fake->isWatched(engine::Topic::Blocks));
        f.client.watchDevices(true);
        QSignalSpy devices(&f.client, &EngineClient::devicesRead);
        QTRY_COMPARE(devices.count(), 1);
        QTest::qWait(120);
        QCOMPARE(devices.count(), 1); // the same reading is not sent twice
        f.client.watchDevices(false);
    }

    void stepsArePolledAtMost30TimesASecond()
    {
        FakeEngineScript script;
        script.stepMs = 2;
        Fixture f(script);
        QSignalSpy steps(&f.client, &EngineClient::stepsTaken);
        f.client.submit(ask(100000));
        QTest::qWait(1000);
        QVERIFY2(steps.count() <= 32, qPrintable(QString::number(steps.count())));
        QVERIFY(steps.count() >= 5);
        f.client.cancelAll();
        QTRY_COMPARE(f.client.activeRequests(), 0);
        const auto after = steps.count();
        QTest::qWait(200);
        QVERIFY(steps.count() <= after + 1);
    }

    void blockTextComesAsynchronously()
    {
        Fixture f;
        f.client.submit(ask(4));
        f.fake->step();
        QSignalSpy ready(&f.client, &EngineClient::blockTextReady);
        f.client.requestBlockText(0);
        QVERIFY(ready.isEmpty());
        QTRY_COMPARE(ready.count(), 1);
        QCOMPARE(ready[0][1].toString(), QStringLiteral("text of block 0"));
    }

    void destroyedWhileStreaming()
    {
        for (int i = 0; i < 20; ++i) {
            FakeEngineScript script;
            script.stepMs = 0.2;
            Fixture f(script);
            f.client.submit(ask(100000));
            f.client.requestBlockText(0);
            QTest::qWait(5);
        }
    }
};

QTEST_GUILESS_MAIN(TestEngineClient)
#include "tst_engine_client.moc"
