// SPDX-License-Identifier: GPL-3.0-or-later
// The tune page's measurements on a scripted engine: sequence, statistics, keep and revert, faults, reports.
#include "tests/support/tune_rig.h"
#include "ui/tune/comparison_card.h"
#include "ui/tune/parameter_panel.h"
#include "ui/tune/tune_report.h"
#include "ui/tune/tuner.h"
#include "ui/tune/workload_panel.h"
#include "ui/widgets/knob_slider.h"

#include <QAbstractButton>
#include <QElapsedTimer>
#include <QEventLoop>
#include <QFile>
#include <QImage>
#include <QLabel>
#include <QPushButton>
#include <QTimer>

#include <algorithm>
#include <set>

using ui::Comparison;
using ui::EngineClient;
using ui::KnobSlider;

namespace {

constexpr ui::Workload smallLoad{4, 2, 8, 4, 0, 3, 7};

} // namespace

class TestTuner : public TuneRig {
    Q_OBJECT
private slots:
    void init()
    {
        FakeEngineScript script;
        script.stepMs = 0.3;
        start(script, true);
        m_page->workloadPanel()->setWorkload(smallLoad);
    }

    void cleanup() { stop(); }

    void aChangeIsMeasuredInPairs()
    {
        moveBlockSize();
        m_page->runWorkload();
        QVERIFY(tuner().isRunning());
        QVERIFY(!m_page->enginePanel()->isEnabled());
        QVERIFY(!tuner().progressText().isEmpty());
        waitForEnd();
        QVERIFY2(tuner().fault().isEmpty(), qPrintable(tuner().fault()));
        const Comparison &c = *tuner().result();
        QVERIFY(c.paired);
        QCOMPARE(c.roundsBefore.size(), std::size_t(3));
        QCOMPARE(c.roundsAfter.size(), std::size_t(3));
        QCOMPARE(c.before.kv.blockTokens, 16);
        QCOMPARE(c.after.kv.blockTokens, 32);
        QCOMPARE(c.effectiveBefore.kv.blockTokens, 16);
        QCOMPARE(c.effectiveAfter.kv.blockTokens, 32);
        QVERIFY(c.notes.isEmpty());
        for (const engine::LoadReport &round : c.roundsAfter)
            QVERIFY(round.completed == 4 && round.outputThroughput > 0 && round.ttftMs && round.itlMs && round.tpotMs);
        QCOMPARE(m_fake->config().kv.blockTokens, 32); // the settings after stay in force
        QCOMPARE(m_client->activeRequests(), 0);
        QVERIFY(m_page->comparisonCard()->table()->rows().size() >= 16);
        QCOMPARE(m_page->comparisonCard()->statusText(), ui::conclusionOf(c));
        QVERIFY(m_page->enginePanel()->isEnabled());
        QVERIFY(m_history->markers().size() >= 3); // every confirmed change
    }

    // Lengths are the same in every round, tokens never; sampling knobs do not reach the requests.
    void roundsSendTheSameLengthsAndNewTokens()
    {
        moveBlockSize();
        m_page->runWorkload();
        QTRY_VERIFY(m_fake->submitted().size() >= 6);
        engine::SamplingParams hot;
        hot.temperature = 2;
        m_client->setSampling(hot);
        waitForEnd();
        const std::vector<engine::Request> sent = m_fake->submitted();
        QCOMPARE(sent.size(), std::size_t(2 + 6 * 4));
        std::set<std::vector<int>> prompts;
        for (const engine::Request &request : sent) {
            QVERIFY(request.ids && prompts.insert(*request.ids).second);
            QVERIFY(request.sampling.ignoreEos && request.sampling.temperature == 0);
        }
        for (std::size_t i = 6; i < sent.size(); ++i) {
            QCOMPARE(sent[i].ids->size(), sent[i - 4].ids->size());
            QCOMPARE(sent[i].sampling.maxTokens, sent[i - 4].sampling.maxTokens);
        }
        for (const auto &[id, sampling] : m_fake->lastSampling())
            QCOMPARE(sampling.temperature, 0.0);
    }

    void revertAsksForTheSettingsBefore()
    {
        moveBlockSize();
        QTest::keyClick(knob("max-num-queued-reqs")->track(), Qt::Key_Right);
        run();
        button("Revert to before")->click();
        QCOMPARE(m_client->config().kv.blockTokens, 16);
        QCOMPARE(m_client->config().maxNumQueuedReqs, 0);
        QTRY_COMPARE(m_fake->config().kv.blockTokens, 16);
        QCOMPARE(m_settings->engineConfig().kv.blockTokens, 16);
        QCOMPARE(knob("block-size")->value(), 16.0);
        QCOMPARE(tuner().result()->outcome, Comparison::Outcome::Reverted);
        QVERIFY(!tuner().isChanged() && !button("Revert to before")->isEnabled());
        QVERIFY(ui::reportMarkdown(*tuner().result()).contains(QStringLiteral("asked for again")));
    }

    // What was asked for is restored, "auto" too, not what it came to.
    void revertRestoresWhatWasAskedFor()
    {
        QCOMPARE(m_client->config().threads, 0);
        QTest::keyClick(knob("threads")->track(), Qt::Key_Right);
        QVERIFY(m_client->config().threads > 0);
        button("Revert to before")->click();
        QCOMPARE(m_client->config().threads, 0);
        QCOMPARE(knob("threads")->value(), 0.0);
    }

    void keepMakesItTheNewBefore()
    {
        moveBlockSize();
        run();
        button("Keep")->click();
        QCOMPARE(tuner().before().kv.blockTokens, 32);
        QCOMPARE(tuner().result()->outcome, Comparison::Outcome::Kept);
        QVERIFY(!tuner().isChanged());
        m_page->runWorkload(); // nothing is changed: these settings alone
        waitForEnd();
        QVERIFY(!tuner().result()->paired && tuner().result()->roundsAfter.empty());
        QCOMPARE(tuner().result()->roundsBefore.size(), std::size_t(3));
        QVERIFY(!m_page->comparisonCard()->table()->rows()[0].before.isEmpty());
        QVERIFY(m_page->comparisonCard()->table()->rows()[0].after.isEmpty());
    }

    void withoutAModelASentenceSaysSo()
    {
        cleanup();
        start({}, false);
        m_page->workloadPanel()->setWorkload(smallLoad);
        m_page->runWorkload();
        QVERIFY(!tuner().isRunning());
        QVERIFY2(m_page->comparisonCard()->statusText().contains(QStringLiteral("No model is loaded")),
                 qPrintable(m_page->comparisonCard()->statusText()));
    }

    void tooLongRequestsAreNotSent()
    {
        ui::Workload workload = smallLoad;
        workload.promptTokens = 4000;
        m_page->workloadPanel()->setWorkload(workload);
        m_page->runWorkload();
        QVERIFY(!tuner().isRunning());
        const QString why = m_page->comparisonCard()->statusText();
        QVERIFY2(why.contains(QStringLiteral("6,006")) && why.contains(QStringLiteral("2,048")), qPrintable(why));
        QVERIFY(m_fake->submitted().empty());
    }

    void refusedByQueueCaps()
    {
        engine::BatchLimits limits;
        limits.maxNumSeqs = 1;
        m_client->setLimits(limits);
        engine::AdmissionRules rules;
        rules.maxNumQueuedTokens = 1;
        m_client->setRules(rules);
        const quint64 chat = ask();
        m_page->runWorkload();
        waitForEnd();
        QVERIFY2(tuner().fault().contains(QStringLiteral("max-num-queued-tokens")), qPrintable(tuner().fault()));
        QVERIFY(m_client->isActive(chat)); // the chat goes on
    }

    void someRefusedAreARow()
    {
        ui::Workload workload = smallLoad;
        workload.clients = 4;
        m_page->workloadPanel()->setWorkload(workload);
        engine::BatchLimits limits;
        limits.maxNumSeqs = 1;
        m_client->setLimits(limits);
        engine::AdmissionRules rules;
        rules.maxNumQueuedReqs = 1;
        m_client->setRules(rules);
        button("Keep")->click();
        m_page->runWorkload();
        waitForEnd();
        QVERIFY2(tuner().fault().isEmpty(), qPrintable(tuner().fault()));
        QVERIFY(tuner().result()->roundsBefore[0].rejected > 0);
        const std::vector<ui::FigureResult> results = ui::figuresOf(*tuner().result());
        QVERIFY(std::any_of(results.begin(), results.end(), [](const auto &r) { return r.figure->key == "refused"; }));
    }

    void stopEndsItsRequestsAndNoOther()
    {
        const quint64 chat = ask();
        m_page->workloadPanel()->setWorkload({4, 2, 1, 900, 0, 3, 7});
        moveBlockSize();
        m_page->runWorkload();
        QTRY_COMPARE(m_client->activeRequests(), 3);
        button("Stop  F5")->click();
        QVERIFY(!tuner().isRunning());
        QVERIFY(!tuner().result());
        QTRY_COMPARE(m_client->activeRequests(), 1);
        QVERIFY(m_client->isActive(chat));
        QTRY_COMPARE(m_fake->config().kv.blockTokens, 32);
        QVERIFY(m_page->comparisonCard()->statusText().contains(QStringLiteral("stopped")));
        m_page->workloadPanel()->setWorkload(smallLoad);
        run();                                       // and it can be run again
        QCOMPARE(tuner().result()->notes.size(), 1); // the chat beside it
    }

    void chatsLoseNothing()
    {
        QString text;
        quint64 chat = 0;
        bool ended = false;
        connect(m_client.get(), &EngineClient::textAppended, this, [&](quint64 id, const QString &added) {
            if (id == chat)
                text += added;
        });
        connect(m_client.get(), &EngineClient::requestFinished, this,
                [&](quint64 id, const engine::RequestFinished &end) {
                    ended = ended || (id == chat && end.reason == engine::FinishReason::Length);
                });
        chat = ask(200);
        moveBlockSize();
        run();
        QTRY_VERIFY(ended);
        QString whole; // the fake says the same again and again, a piece a token
        while (whole.size() < text.size())
            whole += QString::fromStdString(FakeEngineScript().answer);
        QVERIFY(text.size() > 200);
        QCOMPARE(text, whole.left(text.size()));
    }

    void aSettingChangedMeanwhileEndsIt()
    {
        moveBlockSize();
        m_page->runWorkload();
        QTRY_VERIFY(!m_fake->submitted().empty());
        m_client->setThreads(3);
        QVERIFY(!tuner().isRunning());
        QVERIFY2(tuner().fault().contains(QStringLiteral("setting was changed")), qPrintable(tuner().fault()));
        QCOMPARE(m_client->config().threads, 3);
    }

    void anUnloadedModelEndsIt()
    {
        moveBlockSize();
        m_page->runWorkload();
        QTRY_VERIFY(!m_fake->submitted().empty());
        m_client->unloadModel();
        waitForEnd();
        QVERIFY2(tuner().fault().contains(QStringLiteral("unloaded")), qPrintable(tuner().fault()));
        QCOMPARE(m_client->config().kv.blockTokens, 32); // what was asked for, not the side that was measured
    }

    void noticesBecomeNotes()
    {
        moveBlockSize();
        m_page->runWorkload();
        engine::EngineNotice notice;
        notice.kind = engine::EngineNotice::Kind::Overheated;
        notice.message = "cpu is at 91 C";
        m_fake->push(notice);
        waitForEnd();
        QCOMPARE(tuner().result()->notes, QStringList{QStringLiteral("Cpu is at 91 C.")});
    }

    void theWindowClosesInTheMiddle()
    {
        m_page->workloadPanel()->setWorkload({4, 2, 1, 900, 0, 3, 7});
        m_page->runWorkload();
        QTRY_COMPARE(m_client->activeRequests(), 2);
        QElapsedTimer elapsed;
        elapsed.start();
        m_page.reset();
        QVERIFY2(elapsed.elapsed() < 500, qPrintable(QString::number(elapsed.elapsed())));
    }

    void reportsAreWritten()
    {
        moveBlockSize();
        run();
        for (const char *name : {"report.md", "report.csv", "report.PNG"}) {
            const QString path = m_dir->filePath(QString::fromLatin1(name));
            m_page->saveReport(path);
            QTRY_VERIFY2(QFile::exists(path), name);
        }
        const QImage image(m_dir->filePath(QStringLiteral("report.PNG")));
        QCOMPARE(image.width(), 1920);
        QVERIFY(image.height() > 1000);
        const QColor corner = image.pixelColor(2, 2);
        bool drawn = false;
        for (int y = 0; y < image.height() && !drawn; ++y)
            drawn = image.pixelColor(100, y) != corner;
        QVERIFY(drawn);
        m_page->saveReport(m_dir->filePath(QStringLiteral("report.txt")));
        QTRY_VERIFY(shows(QStringLiteral("none of .md, .csv and .png")));
        m_page->saveReport(QStringLiteral("/no/such/folder/report.md"));
        QTRY_VERIFY(shows(QStringLiteral("/no/such/folder/report.md")));
    }

    void knobsWithoutEffectAreNamed()
    {
        QTest::keyClick(knob("num-gpu-blocks-override")->track(), Qt::Key_Right); // the fake's pool has a fixed size
        run();
        QCOMPARE(tuner().result()->notes.size(), 1);
        QVERIFY2(tuner().result()->notes[0].startsWith(QStringLiteral("KV blocks: in force was 96 blocks")),
                 qPrintable(tuner().result()->notes[0]));
    }

    void cancelledRequestsDoNotCount()
    {
        moveBlockSize();
        m_page->workloadPanel()->setWorkload({4, 2, 1, 900, 0, 3, 7});
        m_page->runWorkload();
        QTRY_COMPARE(m_client->activeRequests(), 2);
        m_client->cancel(1);
        waitForEnd();
        QVERIFY2(tuner().fault().contains(QStringLiteral("cancelled")), qPrintable(tuner().fault()));
        QVERIFY(!tuner().result());
    }

    void longTextsOfButtonsAreNotCut()
    {
        button("Revert to before")->setText(QStringLiteral("Einstellungen von vorher wiederherstellen"));
        button("Keep")->setText(QStringLiteral("Als neuen Ausgangspunkt behalten"));
        m_page->resize(1200, 700);
        m_page->show();
        tuner().keep(); // refreshes the page
        QTest::qWait(50);
        for (const QPushButton *one : m_page->findChildren<QPushButton *>())
            QVERIFY2(one->width() >= one->minimumSizeHint().width(), qPrintable(one->text()));
    }

    // The same chat on a real engine, alone and beside a measurement that pages the pool anew between its rounds.
    void chatsOfARealEngineKeepTheirTokens()
    {
        const auto answer = [this](bool measured) {
            cleanup();
            m_settings = std::make_unique<ui::Settings>(m_dir->filePath(QStringLiteral("real.conf")));
            m_client = std::make_unique<EngineClient>(engine::makeEngine());
            m_history = std::make_unique<ui::StatsHistory>(*m_client);
            m_page = std::make_unique<ui::TunePage>(m_theme, *m_client, *m_history, *m_settings);
            m_page->workloadPanel()->setWorkload({4, 4, 12, 6, 0, 2, 7});
            m_client->loadModel(QStringLiteral(LATHE_TEST_DATA "/tiny-llama/llama-f16.gguf"));
            [&] { QTRY_VERIFY(m_client->model().has_value()); }();
            std::vector<int> ids;
            quint64 chat = 0;
            bool ended = false;
            connect(m_client.get(), &EngineClient::tokensSampled, m_client.get(),
                    [&](quint64 id, const std::vector<engine::SampledToken> &tokens) {
                        for (const engine::SampledToken &token : tokens) {
                            if (id == chat)
                                ids.push_back(token.token.id);
                        }
                    });
            connect(m_client.get(), &EngineClient::requestFinished, m_client.get(),
                    [&](quint64 id, const engine::RequestFinished &) { ended = ended || id == chat; });
            engine::Request request;
            request.ids = std::vector<int>{5, 9, 11, 3, 8, 2, 7};
            request.sampling.temperature = 1;
            request.sampling.seed = 4;
            request.sampling.ignoreEos = true;
            request.sampling.logprobs = 0;
            request.sampling.maxTokens = m_client->model()->effective.maxModelLen - 8;
            if (measured) {
                QTest::keyClick(knob("block-size")->track(), Qt::Key_Right);
                m_page->runWorkload();
                connect(&tuner(), &ui::Tuner::changed, m_client.get(), [&] {
                    if (chat == 0 && tuner().isRunning() && tuner().fraction() > 0.25) // in a round that counts
                        chat = m_client->submit(request);
                });
                waitForEnd();
                [&] { QVERIFY2(tuner().fault().isEmpty(), qPrintable(tuner().fault())); }();
                [&] { QVERIFY(tuner().result()->notes.join(u' ').contains(QStringLiteral("Other requests"))); }();
            } else {
                chat = m_client->submit(request);
            }
            [&] { QTRY_VERIFY(ended); }();
            return ids;
        };
        const std::vector<int> alone = answer(false), beside = answer(true);
        QVERIFY(alone.size() > 50);
        QCOMPARE(beside, alone);
    }

    void workloadIsKept()
    {
        QTest::keyClick(m_page->workloadPanel()->knob("requests")->track(), Qt::Key_Right);
        QCOMPARE(m_page->workloadPanel()->workload().requests, 5);
        QCOMPARE(ui::storedWorkload(*m_settings).requests, 5);
        m_settings->setValue(QStringLiteral("workload/rounds"), -3); // out of range: the default
        QCOMPARE(ui::storedWorkload(*m_settings).rounds, ui::Workload().rounds);
    }

    void everyControlHasAName()
    {
        m_page->resize(900, 560);
        m_page->show();
        for (const QAbstractButton *control : m_page->findChildren<QAbstractButton *>())
            QVERIFY(!control->text().isEmpty() || !control->accessibleName().isEmpty());
        for (const QPushButton *control : m_page->findChildren<QPushButton *>())
            QVERIFY2(control->width() >= control->minimumSizeHint().width(), qPrintable(control->text())); // not cut
        QVERIFY(!m_page->comparisonCard()->table()->accessibleName().isEmpty());
    }

private:
    [[nodiscard]] ui::Tuner &tuner() const { return *m_page->tuner(); }
    [[nodiscard]] KnobSlider *knob(std::string_view key) const { return m_page->enginePanel()->knob(key); }
    void moveBlockSize() { QTest::keyClick(knob("block-size")->track(), Qt::Key_Right); }
    void run()
    {
        m_page->runWorkload();
        waitForEnd();
        QVERIFY2(tuner().fault().isEmpty(), qPrintable(tuner().fault()));
    }
    /// In an event loop of its own: QTRY_VERIFY looks every 10 ms only, between which the workload would rest.
    void waitForEnd()
    {
        QEventLoop loop;
        connect(&tuner(), &ui::Tuner::changed, &loop, [&] {
            if (!tuner().isRunning())
                loop.quit();
        });
        QTimer::singleShot(20'000, &loop, &QEventLoop::quit);
        if (tuner().isRunning())
            loop.exec();
        QVERIFY(!tuner().isRunning());
    }
    quint64 ask(int tokens = 100000)
    {
        engine::Request request;
        request.prompt = "why";
        request.sampling.maxTokens = tokens;
        return m_client->submit(request);
    }
    [[nodiscard]] QPushButton *button(const char *text) const
    {
        for (QPushButton *one : m_page->findChildren<QPushButton *>()) {
            if (one->text() == QLatin1String(text))
                return one;
        }
        qFatal("no button \"%s\"", text);
    }
    [[nodiscard]] bool shows(const QString &text) const
    {
        for (const QLabel *label : m_page->findChildren<QLabel *>()) {
            if (label->text().contains(text))
                return true;
        }
        return false;
    }
};

QTEST_MAIN(TestTuner)
#include "tst_tuner.moc"
