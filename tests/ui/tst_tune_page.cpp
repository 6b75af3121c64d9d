// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/tune_rig.h"
#include "ui/parameters.h"
#include "ui/tune/parameter_panel.h"
#include "ui/widgets/knob_slider.h"

#include <QAbstractButton>
#include <QButtonGroup>
#include <QPushButton>
#include <QSignalSpy>

#include <cmath>

using ui::KnobSlider;

class TestTunePage : public TuneRig {
    Q_OBJECT
private slots:
    void init() { start({}, true); }

    void cleanup() { stop(); }

    // Adding a row to the table must be enough: every knob with a field in the two structures has a slider.
    void everyParameterHasAKnob()
    {
        int knobs = 0;
        for (const engine::ParameterSpec &spec : engine::parameterSpecs()) {
            const bool known = ui::parameterValue(engine::SamplingParams(), spec.key)
                || ui::parameterValue(engine::EngineConfig(), spec.key);
            QVERIFY2(known, std::string(spec.key).c_str());
            const KnobSlider *slider = knob(spec.key);
            QVERIFY2(slider, std::string(spec.key).c_str());
            QVERIFY2(!slider->track()->accessibleName().isEmpty() && !slider->toolTip().isEmpty(),
                     std::string(spec.key).c_str());
            ++knobs;
        }
        QVERIFY(knobs >= 12);
        for (const char *needed : {"temperature", "top-k", "top-p", "max-num-seqs", "max-num-batched-tokens",
                                   "block-size", "kv-cache-memory-bytes", "threads"})
            QVERIFY2(knob(needed), needed);
    }

    void fieldsAreReadAndWritten()
    {
        for (const engine::ParameterSpec &spec : engine::parameterSpecs()) {
            engine::SamplingParams sampling;
            engine::EngineConfig config;
            const double value = spec.powersOfTwo ? spec.minimum * 2 : spec.maximum;
            const bool samples = ui::setParameterValue(sampling, spec.key, value);
            QVERIFY2(samples || ui::setParameterValue(config, spec.key, value), std::string(spec.key).c_str());
            QCOMPARE(samples ? *ui::parameterValue(sampling, spec.key) : *ui::parameterValue(config, spec.key), value);
        }
    }

    void defaultsOfTheTableAreThoseOfTheStructures()
    {
        for (const engine::ParameterSpec &spec : engine::parameterSpecs()) {
            const auto sampling = ui::parameterValue(engine::SamplingParams(), spec.key);
            QCOMPARE(sampling ? *sampling : *ui::parameterValue(engine::EngineConfig(), spec.key), spec.defaultValue);
        }
    }

    void samplingReachesRunningRequestsAtOnce()
    {
        engine::Request request;
        request.prompt = "why";
        const quint64 id = m_client->submit(request);
        QTest::keyClick(knob("temperature")->track(), Qt::Key_Home);
        QCOMPARE(m_client->sampling().temperature, 0.0);
        QCOMPARE(m_fake->lastSampling().at(id).temperature, 0.0);
        QCOMPARE(m_settings->sampling().temperature, 0.0); // kept
    }

    void samplingOutOfRangeIsShown()
    {
        engine::SamplingParams wild;
        wild.temperature = 99;
        m_client->setSampling(wild);
        QCOMPARE(knob("temperature")->value(), 5.0);
        const QString note = knob("temperature")->consequence();
        QVERIFY2(note.contains(QStringLiteral("5.00")) && note.contains(QStringLiteral("99")), qPrintable(note));
        QCOMPARE(m_page->samplingPanel()->deviations(), 1);
        QTest::keyClick(knob("top-p")->track(), Qt::Key_Home); // another knob keeps what was asked for
        QCOMPARE(m_client->requestedSampling().temperature, 99.0);
        QTest::keyClick(knob("temperature")->track(), Qt::Key_Home);
        QCOMPARE(m_client->requestedSampling().temperature, 0.0);
        QVERIFY(!knob("temperature")->consequence().contains(QStringLiteral("99")));
        QCOMPARE(m_page->samplingPanel()->deviations(), 0);
    }

    void limitsAreSentAndKept()
    {
        KnobSlider *slider = knob("max-num-seqs");
        QTest::keyClick(slider->track(), Qt::Key_Home);
        QCOMPARE(m_fake->config().limits.maxNumSeqs, 1);
        QTRY_VERIFY(std::isnan(slider->track()->ring())); // answered: effective equals requested
        QCOMPARE(m_settings->engineConfig().limits.maxNumSeqs, 1);
    }

    void namedValuesAreButtons()
    {
        KnobSlider *policy = knob("scheduling-policy");
        QVERIFY(policy->choices() && policy->choices()->buttons().size() == 3);
        policy->choices()->button(2)->click();
        QCOMPARE(m_fake->config().policy, engine::SchedulingPolicy::Shortest);
        QTRY_VERIFY(!policy->differs());
        QCOMPARE(m_settings->engineConfig().policy, engine::SchedulingPolicy::Shortest);
        knob("enable-prefix-caching")->choices()->button(0)->click();
        QVERIFY(!m_fake->config().kv.prefixCaching);
        m_page->showKnob("scheduling-policy"); // a knob without a line can be shown, too
    }

    void rulesAreSentAndKept()
    {
        QTest::keyClick(knob("max-num-queued-reqs")->track(), Qt::Key_Right);
        QTest::keyClick(knob("admission-reserve")->track(), Qt::Key_Home);
        QTest::keyClick(knob("max-num-queued-tokens")->track(), Qt::Key_Right);
        QCOMPARE(m_fake->config().maxNumQueuedReqs, 1);
        QCOMPARE(m_fake->config().maxNumQueuedTokens, std::int64_t{1});
        QCOMPARE(m_fake->config().admissionReserve, 0.0);
        QTRY_VERIFY(!knob("max-num-queued-reqs")->differs());
        QCOMPARE(m_settings->engineConfig().maxNumQueuedReqs, 1);
    }

    void poolShowsWhatIsInForceUntilItChanges()
    {
        KnobSlider *slider = knob("block-size");
        QTest::keyClick(slider->track(), Qt::Key_Right);
        QVERIFY(slider->isPending());
        QCOMPARE(slider->track()->ring(), 32.0); // asked for, not in force yet
        QCOMPARE(slider->track()->knobValue(), 16.0);
        QTRY_VERIFY(!slider->isPending());
        QVERIFY(std::isnan(slider->track()->ring()));
        QCOMPARE(slider->track()->knobValue(), 32.0);
    }

    void reasonOfADifferenceIsShown()
    {
        cleanup();
        FakeEngineScript script;
        script.applyNote = "lowered: a device is above 85 °C";
        start(script, true);
        KnobSlider *slider = knob("max-num-batched-tokens");
        QTest::keyClick(slider->track(), Qt::Key_Right);
        QTRY_VERIFY2(slider->consequence().contains(QStringLiteral("85 °C")), qPrintable(slider->consequence()));
    }

    void withoutAModelKnobsAreKeptForTheNext()
    {
        cleanup();
        start({}, false);
        QTest::keyClick(knob("block-size")->track(), Qt::Key_End);
        QCOMPARE(m_client->config().kv.blockTokens, 128);
        QVERIFY(!knob("block-size")->isPending());
        m_client->loadModel(QStringLiteral("/models/example.gguf"));
        QTRY_VERIFY(m_client->model().has_value());
        QCOMPARE(m_fake->config().kv.blockTokens, 128);
    }

    void defaultsButton()
    {
        QTest::keyClick(knob("temperature")->track(), Qt::Key_End);
        QTest::keyClick(knob("max-num-seqs")->track(), Qt::Key_Home);
        for (QPushButton *button : m_page->findChildren<QPushButton *>()) {
            if (button->text() == QStringLiteral("Defaults"))
                button->click();
        }
        QVERIFY(m_client->sampling() == engine::SamplingParams());
        QVERIFY(m_client->config().limits == engine::BatchLimits());
        QCOMPARE(knob("temperature")->value(), 0.8);
    }

private:
    [[nodiscard]] KnobSlider *knob(std::string_view key) const
    {
        KnobSlider *slider = m_page->enginePanel()->knob(key);
        return slider ? slider : m_page->samplingPanel()->knob(key);
    }
};

QTEST_MAIN(TestTunePage)
#include "tst_tune_page.moc"
