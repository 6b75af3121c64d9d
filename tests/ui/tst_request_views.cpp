// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/fake_engine.h"
#include "tests/support/fake_server_control.h"
#include "ui/chat/answer_facts.h"
#include "ui/engine_client.h"
#include "ui/inspect/batch_card.h"
#include "ui/inspect/latency_card.h"
#include "ui/latency_book.h"
#include "ui/server/server_page.h"
#include "ui/server_link.h"
#include "ui/settings.h"
#include "ui/stats_history.h"
#include "ui/status_line.h"
#include "ui/theme.h"
#include "ui/tune/timeline_card.h"

#include <QCheckBox>
#include <QFile>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSignalSpy>
#include <QSpinBox>
#include <QTemporaryDir>
#include <QTest>

#include <cmath>

using namespace ui;
using ServerPhase = ServerState::Phase;
using SpanPhase = RequestSpan::Phase;

namespace {

/// Two chats that run, and the history of them.
struct Rig {
    explicit Rig(FakeEngineScript script = {})
        : fake(new FakeEngine(std::move(script)))
        , client(std::unique_ptr<engine::Engine>(fake))
        , history(client)
        , settings(dir.filePath(QStringLiteral("lathe.conf")))
    {
        theme.setMode(ThemeMode::Dark);
        QSignalSpy loaded(&client, &EngineClient::modelLoaded);
        client.loadModel(QStringLiteral("/models/example.gguf"));
        loaded.wait();
        client.watchSteps(true);
    }
    quint64 submit(int tokens, const QString &name = {}, const QString &group = {})
    {
        engine::Request request;
        request.prompt = "q";
        request.sampling.maxTokens = tokens;
        const quint64 id = client.submit(request);
        client.setRequestName(id, name, group);
        return id;
    }
    /// A request that came through the server.
    quint64 guest(const char *name, int tokens = 20)
    {
        engine::Request request;
        request.prompt = "q";
        request.client = name;
        request.sampling.maxTokens = tokens;
        return fake->submit(request);
    }
    void steps(int count)
    {
        for (int i = 0; i < count; ++i)
            fake->step();
        QTest::qWait(60);
        client.takeSteps();
    }

    QTemporaryDir dir;
    FakeEngine *fake;
    Theme theme;
    EngineClient client;
    StatsHistory history;
    Settings settings;
};

AnswerFacts quickFacts()
{
    AnswerFacts f;
    f.usage = {540, 64, 512, 512, 0};
    f.timings.ttftMs = 84;
    f.timings.prefillMs = 80;
    f.timings.queueMs = 4;
    f.timings.tpotMs = 12;
    f.timings.decodeMs = 756;
    f.timings.e2eMs = 840;
    f.gapP50 = 12;
    f.gapP95 = 15;
    f.story.longestGapMs = 30;
    f.story.steps = 64;
    f.story.meanRows = 1;
    f.story.mostRows = 1;
    f.places = 4;
    return f;
}

QString said(const AnswerFacts &facts)
{
    return whySlow(facts).sentences.join(u'\n');
}

void savePicture(QWidget &widget, const char *name)
{
    if (const QString dir = qEnvironmentVariable("LATHE_PICTURES"); !dir.isEmpty())
        widget.grab().save(dir + u'/' + QString::fromLatin1(name) + QStringLiteral(".png"));
}

} // namespace

/// What the window says about single requests and about the server's clients.
class TestRequestViews : public QObject {
    Q_OBJECT
private slots:
    void allStatesComeFromTheEngine()
    {
        FakeEngineScript script;
        script.prefillPerStep = 12; // two steps
        Rig rig(script);
        const quint64 id = rig.submit(6);
        rig.steps(4);
        rig.fake->preempt(id);
        rig.steps(8);
        const RequestSpan &span = rig.history.requests().front();
        std::vector<SpanPhase> phases;
        for (const auto &segment : span.segments)
            phases.push_back(segment.phase);
        QVERIFY((phases
                 == std::vector{SpanPhase::Queued, SpanPhase::Prefill, SpanPhase::Decode, SpanPhase::Preempted,
                                SpanPhase::Recompute, SpanPhase::Decode}));
        for (std::size_t i = 0; i + 1 < span.segments.size(); ++i) {
            QVERIFY(span.segments[i].begin <= span.segments[i].end);
            QVERIFY(span.segments[i].end <= span.segments[i + 1].begin + 1e-9);
        }
        QCOMPARE(span.segments[1].tokens, 24);
        QCOMPARE(span.hits.size(), std::size_t(2)); // at its admission and when it came back
        QCOMPARE(span.cachedTokens(), 16);
        QCOMPARE(span.preemptions, 1);
        QVERIFY(span.finished);
        QCOMPARE(span.reason, QStringLiteral("length"));
        QCOMPARE(span.outputTokens, 6);
        QVERIFY(span.arrivedAt > 0 && span.segments.front().begin == span.arrivedAt);
    }

    void aWaitingRequestIsShownWhileItWaits()
    {
        Rig rig;
        rig.client.setLimits({1, 64});
        rig.submit(100);
        const quint64 second = rig.submit(3);
        rig.steps(3);
        const RequestSpan waiting = rig.history.requests().back();
        QCOMPARE(waiting.id, second);
        QCOMPARE(waiting.segments.size(), std::size_t(1));
        QCOMPARE(int(waiting.segments[0].phase), int(SpanPhase::Queued));
        QVERIFY(waiting.endOf(0, 1e6) == 1e6); // it goes on
        rig.client.cancel(second);
        QTRY_VERIFY(rig.history.requests().back().finished);
        const RequestSpan &ended = rig.history.requests().back();
        QVERIFY(ended.endOf(0, 1e6) < 1e6);
        QCOMPARE(ended.reason, QStringLiteral("cancelled"));
    }

    void theTimelineIsReadByKeys()
    {
        Rig rig;
        rig.submit(4, QStringLiteral("Photos"));
        rig.submit(4, QStringLiteral("Letters"));
        rig.steps(6);
        TimelineCard card(rig.theme, rig.client, rig.history);
        card.resize(700, 300);
        card.show();
        card.setFocus();
        QTest::keyClick(&card, Qt::Key_Up);
        QVERIFY2(card.readout().startsWith(QStringLiteral("#2 Letters")), qPrintable(card.readout()));
        QVERIFY(card.readout().contains(QStringLiteral("16 cached")));
        QTest::keyClick(&card, Qt::Key_Home);
        QVERIFY(card.readout().startsWith(QStringLiteral("#1 Photos")));
        QTest::keyClick(&card, Qt::Key_Right);
        QVERIFY2(card.readout().contains(QStringLiteral("queued for")), qPrintable(card.readout()));
        QTest::keyClick(&card, Qt::Key_Right);
        QVERIFY2(card.readout().contains(QStringLiteral("prefill for")), qPrintable(card.readout()));
        QVERIFY(card.readout().contains(QStringLiteral("16 before it from the cache")));
        QTest::keyClick(&card, Qt::Key_Right);
        QVERIFY(card.readout().contains(QStringLiteral("decode for")));
        QTest::keyClick(&card, Qt::Key_Right); // the last part stays
        QVERIFY(card.readout().contains(QStringLiteral("decode for")));
        QCOMPARE(card.accessibleDescription(), card.readout());
        savePicture(card, "timeline-dark");
        QTest::keyClick(&card, Qt::Key_Escape);
        QCOMPARE(card.readout(), card.summary());
    }

    void percentilesOfEachChat()
    {
        Rig rig;
        for (int i = 0; i < 3; ++i)
            rig.submit(5, QStringLiteral("Photos"), QStringLiteral("chat 1"));
        rig.submit(9, QStringLiteral("Letters"), QStringLiteral("chat 2"));
        rig.submit(2); // in no chat: counted among all only
        rig.steps(12);
        const auto rows = rig.history.latencies().rows();
        QCOMPARE(rows.size(), std::size_t(3));
        QVERIFY(rows[0].group.isEmpty());
        QCOMPARE(rows[0].ttft.samples, 5);
        QCOMPARE(rows[0].gap.samples, 3 * 4 + 8 + 1);
        for (const auto &row : rows) {
            if (row.group == u"chat 1") {
                QCOMPARE(row.name, QStringLiteral("Photos"));
                QCOMPARE(row.ttft.samples, 3);
                QCOMPARE(row.gap.samples, 12);
            }
            QVERIFY(row.ttft.p50 <= row.ttft.p95 && row.ttft.p95 <= row.ttft.p99);
        }
        LatencyCard card(rig.theme, rig.client, rig.history);
        card.resize(496, 196);
        card.show();
        QVERIFY(card.accessibleDescription().contains(QStringLiteral("P95")));
        const QString path = rig.dir.filePath(QStringLiteral("latency.csv"));
        QString why;
        QVERIFY2(card.exportTo(path, &why), qPrintable(why));
        QFile file(path);
        QVERIFY(file.open(QIODevice::ReadOnly));
        const QList<QByteArray> lines = file.readAll().trimmed().split('\n');
        QCOMPARE(lines.size(), 4);
        QCOMPARE(lines[1].count(','), lines[0].count(','));
        QVERIFY(!card.exportTo(QStringLiteral("/no/such/folder/a.csv"), &why));
        savePicture(card, "latency-dark");
        rig.client.loadModel(QStringLiteral("/models/other.gguf"));
        QTRY_COMPARE(rig.history.latencies().rows().size(), std::size_t(1)); // another model, other times
    }

    void percentilesByNearestRank()
    {
        std::vector<float> samples;
        for (int i = 200; i >= 1; --i)
            samples.push_back(float(i));
        const Percentiles p = percentilesOf(samples);
        QCOMPARE(p.p50, 100.0);
        QCOMPARE(p.p95, 190.0);
        QCOMPARE(p.p99, 198.0);
        QVERIFY(std::isnan(percentilesOf({}).p50));
        QCOMPARE(percentilesOf({7}).p99, 7.0);
    }

    void aQuickAnswerIsCalledQuick()
    {
        const AnswerFacts facts = quickFacts();
        const SlowVerdict verdict = whySlow(facts);
        QVERIFY(!verdict.slow);
        QVERIFY2(said(facts).contains(QStringLiteral("not slow")) && said(facts).contains(QStringLiteral("84 ms")),
                 qPrintable(said(facts)));
        QVERIFY(!AnswerFacts::isSlow(facts.toText()));
    }

    void everyReasonHasItsNumbers_data()
    {
        QTest::addColumn<QString>("reason");
        QTest::addColumn<QStringList>("parts");
        QTest::newRow("places") << "places" << QStringList{"3.2 s", "3 requests", "2 waited", "at most 4"};
        QTest::newRow("blocks") << "blocks" << QStringList{"KV cache", "40 more blocks", "12 were free"};
        QTest::newRow("turn") << "turn" << QStringList{"its turn", "3.2 s"};
        QTest::newRow("load") << "rest" << QStringList{"before it was taken in", "3.2 s"};
        QTest::newRow("prefill") << "prefill"
                                 << QStringList{"2,588 tokens had to be computed", "12 steps", "512 of 3,100",
                                                "number 513"};
        QTest::newRow("preempted") << "preempted" << QStringList{"2 times", "1.4 s", "812 tokens were computed again"};
        QTest::newRow("paused") << "paused" << QStringList{"stood still for 1.4 s"};
        QTest::newRow("batch") << "batch" << QStringList{"5.3 requests a step", "at most 8", "4,211 tokens", "812 ms"};
        QTest::newRow("heat") << "heat" << QStringList{"14 of its 64 steps", "down to 512"};
        QTest::newRow("notice") << "notice" << QStringList{"Meanwhile: Step 7 has not come to its end"};
        QTest::newRow("nothing") << "nothing" << QStringList{"Nothing held it up"};
    }

    void everyReasonHasItsNumbers()
    {
        QFETCH(QString, reason);
        QFETCH(QStringList, parts);
        AnswerFacts f = quickFacts();
        f.story.runningBefore = 3;
        f.story.waitingBefore = 2;
        const bool queued = reason == u"places" || reason == u"blocks" || reason == u"turn" || reason == u"rest";
        if (queued) {
            f.timings.queueMs = 3200;
            f.timings.ttftMs = 3290;
            (reason == u"places"       ? f.story.placesMs
                 : reason == u"blocks" ? f.story.blocksMs
                 : reason == u"turn"   ? f.story.turnMs
                                       : f.gapP50) = 3200;
            f.story.blocksWanted = 40;
            f.story.blocksFree = 12;
        } else if (reason == u"prefill") {
            f.usage.promptTokens = 3100;
            f.timings.prefillMs = 2900;
            f.timings.ttftMs = 2904;
            f.story.prefillSteps = 12;
        } else if (reason == u"preempted") {
            f.usage.preemptions = 2;
            f.story.preemptedMs = 1400;
            f.story.recomputedTokens = 812;
        } else if (reason == u"paused") {
            f.story.pausedMs = 1400;
        } else if (reason == u"batch") {
            f.story.meanRows = 5.3;
            f.story.mostRows = 8;
            f.story.othersPrefill = 4211;
            f.story.othersPrefillMs = 600;
            f.story.longestGapMs = 812;
            f.story.longestGapPrefill = 512;
        } else if (reason == u"heat") {
            f.timings.tpotMs = 210;
            f.story.hotSteps = 14;
            f.story.hotBudget = 512;
        } else if (reason == u"notice") {
            f.timings.tpotMs = 210;
            f.notices = {QStringLiteral("step 7 has not come to its end in 60.0 s")};
        } else {
            f.timings.tpotMs = 210;
            f.timings.prefillMs = 20;
        }
        QVERIFY(whySlow(f).slow);
        for (const QString &part : parts)
            QVERIFY2(said(f).contains(part), qPrintable(said(f)));
        QVERIFY(AnswerFacts::isSlow(f.toText()));
        const auto read = AnswerFacts::fromText(f.toText()); // and the stored message says the same
        QVERIFY(read.has_value());
        QCOMPARE(said(*read), said(f));
        QVERIFY(read->story == f.story);
    }

    void foreignTextsAreNoFacts()
    {
        for (const char *text : {"", "slow ", "fine {}", "fine {\"ttftMs\"", "nonsense", "{\"ttftMs\":1}"})
            QVERIFY2(!AnswerFacts::fromText(QLatin1String(text)), text);
        const auto odd = AnswerFacts::fromText(QStringLiteral("fine {\"ttftMs\":1e300,\"steps\":\"many\"}"));
        QVERIFY(odd.has_value());
        QCOMPARE(odd->story.steps, 0);
    }

    void clientsOfTheServerAreShown()
    {
        Rig rig;
        rig.submit(20);
        const quint64 id = rig.guest("curl, alice");
        rig.steps(2);
        QTRY_VERIFY(rig.client.isGuest(id));
        QCOMPARE(rig.client.activeRequests(), 2);
        QCOMPARE(rig.client.requestName(id), QStringLiteral("curl, alice"));
        BatchCard batch(rig.theme, rig.client, rig.history);
        batch.resize(batch.sizeHint());
        batch.show();
        QVERIFY2(batch.summary().contains(QStringLiteral("1 of clients")), qPrintable(batch.summary()));
        savePicture(batch, "batch-dark");
        QCOMPARE(rig.history.requests().back().client, QStringLiteral("curl, alice"));
        QVERIFY(rig.history.requests().back().guest);
        QVERIFY(!rig.history.requests().front().guest);
        engine::SamplingParams other = rig.client.sampling();
        other.temperature = 1.5;
        rig.client.setSampling(other); // the window's knobs are not the client's
        QVERIFY(rig.fake->lastSampling().at(id).temperature < 1.5);
        rig.client.cancelAll();
        rig.steps(1);
        QTRY_COMPARE(rig.client.activeRequests(), 1);
        rig.steps(30);
        QTRY_COMPARE(rig.client.activeRequests(), 0);
        QVERIFY(!rig.client.isGuest(id));
    }

    void theServerIsSwitchedAndCopied()
    {
        Rig rig;
        FakeServerControl control;
        ServerLink link(control, rig.client);
        ServerPage page(rig.theme, rig.client, rig.history, rig.settings, link);
        page.resize(1000, 600);
        page.show();
        QCOMPARE(control.models, std::vector<bool>{true});
        QVERIFY(page.address()->text().isEmpty());
        page.port()->setValue(9000);
        QTest::mouseClick(page.toggle(), Qt::LeftButton);
        QCOMPARE(control.wishes, (std::vector<ServerWish>{{9000, true}}));
        QTRY_COMPARE(page.address()->text(), QStringLiteral("http://127.0.0.1:8642/v1"));
        QCOMPARE(page.key()->text(), QStringLiteral("key-of-the-test"));
        QVERIFY(!page.port()->isEnabled());
        QVERIFY(page.status()->text().contains(QStringLiteral("example")));
        StatusLine line(rig.theme, rig.client, rig.history);
        line.setServer(link);
        QVERIFY2(line.text().contains(QStringLiteral("server 127.0.0.1:8642")), qPrintable(line.text()));
        rig.guest("OpenAI");
        rig.steps(2);
        savePicture(page, "server-dark");
        QTest::mouseClick(page.toggle(), Qt::LeftButton);
        QCOMPARE(control.stops, 1);
        QTRY_VERIFY(page.port()->isEnabled());
        QVERIFY(page.address()->text().isEmpty());
        page.withKey()->setChecked(false);
        QTest::keyClick(page.toggle(), Qt::Key_Space);
        QCOMPARE(control.wishes.back(), (ServerWish{9000, false}));
        control.tell({ServerPhase::Failed, "", "", "",
                      "cannot listen on 127.0.0.1 port 9000: Address already in use; "
                      "choose another port",
                      0});
        QTRY_VERIFY(page.status()->text().startsWith(QStringLiteral("Cannot listen")));
        QVERIFY(!link.isOn());
        QCOMPARE(rig.settings.value(QStringLiteral("server/port")).toInt(), 9000);
        QVERIFY(!page.toggle()->text().isEmpty() && page.toggle()->isEnabled());
        rig.client.unloadModel();
        QTRY_COMPARE(control.models, (std::vector<bool>{true, false}));
    }
};

QTEST_MAIN(TestRequestViews)
#include "tst_request_views.moc"
