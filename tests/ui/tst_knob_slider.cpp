// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/widgets/knob_slider.h"

#include <QLineEdit>
#include <QSignalSpy>
#include <QTest>

#include <cmath>

using ui::KnobScale;
using ui::KnobSlider;

namespace {

const engine::ParameterSpec &spec(std::string_view key)
{
    return *engine::findParameter(key);
}

} // namespace

class TestKnobSlider : public QObject {
    Q_OBJECT
private slots:
    void everyKnobRoundTrips_data()
    {
        QTest::addColumn<int>("row");
        for (int i = 0; i < int(engine::parameterSpecs().size()); ++i)
            QTest::newRow(std::string(engine::parameterSpecs()[std::size_t(i)].key).c_str()) << i;
    }

    // Whatever the table says: positions give allowed values, allowed values keep their place, texts can be typed back.
    void everyKnobRoundTrips()
    {
        QFETCH(int, row);
        const engine::ParameterSpec &knob = engine::parameterSpecs()[std::size_t(row)];
        const KnobScale scale(knob);
        double last = -INFINITY;
        for (int i = 0; i <= 200; ++i) {
            const double value = scale.value(i / 200.0);
            QCOMPARE(QString::fromStdString(engine::checkParameter(knob, value)), QString());
            QVERIFY2(value >= last, "positions must ascend");
            QVERIFY(std::abs(scale.value(scale.position(value)) - value) <= knob.step * 1e-6 + 1e-9);
            last = value;
        }
        QCOMPARE(scale.value(0), knob.minimum);
        QCOMPARE(scale.value(1), knob.maximum);
        QCOMPARE(scale.allowed(knob.defaultValue), knob.defaultValue);
        QCOMPARE(scale.allowed(NAN), knob.defaultValue);
        const double typed = KnobSlider::parse(knob, KnobSlider::textOf(knob, knob.defaultValue));
        QCOMPARE(typed, knob.defaultValue);
        QVERIFY(scale.stepped(knob.minimum, 1) > knob.minimum);
        QCOMPARE(scale.stepped(knob.minimum, -1), knob.minimum);
    }

    void keysStepAndReset()
    {
        ui::Theme theme;
        KnobSlider slider(theme, spec("temperature"));
        slider.setValue(0.8);
        QSignalSpy changed(&slider, &KnobSlider::valueChanged);
        QTest::keyClick(slider.track(), Qt::Key_Right);
        QCOMPARE(slider.value(), 0.81);
        QTest::keyClick(slider.track(), Qt::Key_PageDown);
        QCOMPARE(slider.value(), 0.71);
        QTest::keyClick(slider.track(), Qt::Key_Home);
        QCOMPARE(slider.value(), 0.0);
        QTest::keyClick(slider.track(), Qt::Key_Left); // the end
        QCOMPARE(slider.value(), 0.0);
        QCOMPARE(changed.count(), 3);
        QTest::mouseDClick(slider.track(), Qt::LeftButton);
        QCOMPARE(slider.value(), 0.8);
    }

    void powersOfTwoOnly()
    {
        ui::Theme theme;
        KnobSlider slider(theme, spec("block-size"));
        QTest::keyClick(slider.track(), Qt::Key_Right);
        QCOMPARE(slider.value(), 32.0);
        slider.setValue(50);
        QCOMPARE(slider.value(), 64.0);
    }

    void typing_data()
    {
        QTest::addColumn<QString>("key");
        QTest::addColumn<QString>("text");
        QTest::addColumn<double>("value");
        QTest::addColumn<bool>("accepted");
        QTest::newRow("number") << "temperature" << "1.25" << 1.25 << true;
        QTest::newRow("thousands") << "max-num-batched-tokens" << "4,096" << 4096.0 << true;
        QTest::newRow("unit") << "max-num-batched-tokens" << "512 tokens" << 512.0 << true;
        QTest::newRow("gib") << "kv-cache-memory-bytes" << "2 GiB" << 2147483648.0 << true;
        QTest::newRow("suffix") << "kv-cache-memory-bytes" << "512M" << 536870912.0 << true;
        QTest::newRow("auto") << "threads" << "auto" << 0.0 << true;
        QTest::newRow("too large") << "temperature" << "99" << 0.0 << false;
        QTest::newRow("words") << "temperature" << "warm" << 0.0 << false;
        QTest::newRow("wrong unit") << "max-num-seqs" << "5 GiB" << 0.0 << false;
        QTest::newRow("fraction") << "max-num-seqs" << "5.5" << 0.0 << false;
        QTest::newRow("empty") << "max-num-seqs" << "" << 0.0 << false;
        QTest::newRow("not a power") << "block-size" << "17" << 0.0 << false;
    }

    void typing()
    {
        QFETCH(QString, key);
        QFETCH(QString, text);
        QFETCH(double, value);
        QFETCH(bool, accepted);
        ui::Theme theme;
        const std::string name = key.toStdString();
        KnobSlider slider(theme, spec(name));
        if (slider.value() == value)
            slider.setValue(slider.spec().maximum);
        const double before = slider.value();
        QSignalSpy changed(&slider, &KnobSlider::valueChanged);
        slider.edit()->selectAll();
        QTest::keyClick(slider.edit(), Qt::Key_Delete);
        QTest::keyClicks(slider.edit(), text);
        QTest::keyClick(slider.edit(), Qt::Key_Return);
        QCOMPARE(changed.count(), accepted ? 1 : 0);
        QCOMPARE(slider.value(), accepted ? value : before);
        if (!accepted) // the reason stands below
            QVERIFY2(slider.consequence().contains(key) || slider.consequence().contains(text),
                     qPrintable(slider.consequence()));
    }

    void requestedAndEffective()
    {
        ui::Theme theme;
        KnobSlider slider(theme, spec("max-num-batched-tokens"));
        slider.setValue(2048);
        slider.setEffective(2048);
        QVERIFY(std::isnan(slider.track()->ring()));
        slider.setEffective(1536);
        slider.setConsequence(QStringLiteral("device at 85 °C"), QStringLiteral("warn"));
        QCOMPARE(slider.track()->ring(), 2048.0);
        QCOMPARE(slider.track()->knobValue(), 1536.0);
        QVERIFY(slider.consequence().contains(QStringLiteral("1,536")));
        QVERIFY(slider.consequence().contains(QStringLiteral("2,048")));
        QVERIFY(slider.consequence().contains(QStringLiteral("85 °C")));
    }

    void automaticIsNoDeviation()
    {
        ui::Theme theme;
        KnobSlider slider(theme, spec("threads"));
        slider.setValue(0);
        slider.setEffective(2);
        QVERIFY(std::isnan(slider.track()->ring()));
        QVERIFY(slider.valueText().contains(QStringLiteral("auto")));
        QVERIFY(slider.valueText().contains(QStringLiteral("2")));
    }

    void pendingIsMarkedAndNamed()
    {
        ui::Theme theme;
        KnobSlider slider(theme, spec("block-size"));
        slider.setPending(true);
        QVERIFY(slider.isPending());
        QVERIFY(!slider.track()->accessibleName().isEmpty());
        QVERIFY(!slider.edit()->accessibleName().isEmpty());
        QVERIFY(!slider.toolTip().isEmpty());
    }

    void wheelDoesNotTurnIt()
    {
        ui::Theme theme;
        KnobSlider slider(theme, spec("temperature"));
        QSignalSpy changed(&slider, &KnobSlider::valueChanged);
        QWheelEvent wheel({5, 5}, {5, 5}, {}, {0, 120}, Qt::NoButton, Qt::NoModifier, Qt::NoScrollPhase, false);
        QCoreApplication::sendEvent(slider.track(), &wheel);
        QCOMPARE(changed.count(), 0);
        QVERIFY(!wheel.isAccepted());
    }
};

QTEST_MAIN(TestKnobSlider)
#include "tst_knob_slider.moc"
