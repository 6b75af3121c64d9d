// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/lab/bench.h"

#include <QTest>

class BenchTest : public QObject {
    Q_OBJECT

private slots:
    void spreadOfKnownValues();
    void spreadOfOneValue();
    void bandwidthIsPlausible();
};

void BenchTest::spreadOfKnownValues()
{
    const engine::Spread spread = engine::spreadOf({4, 1, 3, 2});
    QCOMPARE(spread.minimum, 1.0);
    QCOMPARE(spread.maximum, 4.0);
    QCOMPARE(spread.median, 2.5);
    QCOMPARE(spread.mean, 2.5);
    QVERIFY(qAbs(spread.stdev - 1.2909944487358056) < 1e-12);
}

void BenchTest::spreadOfOneValue()
{
    const engine::Spread spread = engine::spreadOf({7});
    QCOMPARE(spread.median, 7.0);
    QCOMPARE(spread.stdev, 0.0);
}

void BenchTest::bandwidthIsPlausible()
{
    const double bytesPerSecond = engine::measureReadBandwidth(2);
    QVERIFY2(bytesPerSecond > 1e8 && bytesPerSecond < 5e12, qPrintable(QString::number(bytesPerSecond)));
}

QTEST_GUILESS_MAIN(BenchTest)
#include "tst_bench.moc"
