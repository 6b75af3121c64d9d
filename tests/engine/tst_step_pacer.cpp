// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/step_pacer.h"

#include <QTest>

using namespace engine;

class TestStepPacer : public QObject {
    Q_OBJECT

private slots:
    void findsTheStepOfADevice_data()
    {
        QTest::addColumn<double>("tokensPerSecond");
        QTest::newRow("reference") << 30.0;
        QTest::newRow("small machine") << 500.0;
        QTest::newRow("large machine") << 20000.0;
    }
    void findsTheStepOfADevice()
    {
        QFETCH(double, tokensPerSecond);
        StepPacer pacer(135'000'000, false);
        for (int step = 0; step < 20; ++step)
            pacer.measured(pacer.promptTokens(), pacer.promptTokens(), pacer.promptTokens() / tokensPerSecond);
        const double ideal = StepPacer::targetSeconds * tokensPerSecond;
        QVERIFY2(pacer.promptTokens() >= 0.5 * ideal && pacer.promptTokens() <= 1.01 * ideal,
                 qPrintable(QString::number(pacer.promptTokens())));
    }

    void neverFallsBelowTheLeast()
    {
        StepPacer pacer;
        for (int step = 0; step < 20; ++step)
            pacer.measured(100, 50, 1000.0);
        QCOMPARE(pacer.promptTokens(), StepPacer::leastTokens);
    }

    void stepsWithoutPromptsOrWithShortOnesTellNothing()
    {
        StepPacer pacer(1'000'000, false);
        const int before = pacer.promptTokens();
        QCOMPARE(before, StepPacer::mostFirstTokens);
        pacer.measured(64, 0, 10.0);
        pacer.measured(before / 2, before / 2, 0.0001);
        QCOMPARE(pacer.promptTokens(), before);
    }

    void largeModelsAndTheReferenceStartLow()
    {
        QCOMPARE(StepPacer(8'000'000'000, false).promptTokens(), StepPacer::leastTokens);
        QCOMPARE(StepPacer(135'000'000, true).promptTokens(), StepPacer::leastTokens);
    }
};

QTEST_GUILESS_MAIN(TestStepPacer)
#include "tst_step_pacer.moc"
