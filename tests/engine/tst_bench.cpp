// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/peak.h"
#include "engine/lab/bench.h"
#include "engine/lab/bench_operations.h"
#include "kernels/ops.h"

#include <QTest>

class BenchTest : public QObject {
    Q_OBJECT

private slots:
    void spreadOfKnownValues();
    void spreadOfOneValue();
    void bandwidthIsPlausible();
    void peaksArePlausible();
    void operationsOfKnownTensors();
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

void BenchTest::peaksArePlausible()
{
    double last = 0;
    for (const std::string &level : kernels::availableIsaLevels()) {
        const engine::PeakRates rates = engine::measurePeakRates(level, 1);
        QVERIFY2(rates.integer > 1e8 && rates.integer < 1e14, level.c_str());
        QVERIFY2(rates.floating > 1e8 && rates.floating < 1e13, level.c_str());
        QVERIFY2(rates.integer > last / 4, level.c_str()); // a higher level is not much slower, whatever else runs
        last = rates.integer;
    }
}

void BenchTest::operationsOfKnownTensors()
{
    engine::ModelDescription model;
    model.format = "gguf";
    model.metadataJson = {{"llama.expert_count", "8"}, {"llama.expert_used_count", "2"}};
    model.tensors = {{"token_embd.weight", "Q8_0", {64, 100}, 0, 0},
                     {"blk.0.attn_q.weight", "F16", {64, 32}, 0, 0},
                     {"blk.0.attn_norm.weight", "F32", {64}, 0, 0},
                     {"blk.0.ffn_up_exps.weight", "Q4_0", {64, 128, 8}, 0, 0}};
    auto operations = engine::countOperations(model);
    QVERIFY(operations.has_value());
    QCOMPARE(operations->head.integer, 2.0 * 6400); // tied
    QCOMPARE(operations->body.floating, 2.0 * 64 * 32);
    QCOMPARE(operations->body.integer, 2.0 * 64 * 128 * 2);
    model.tensors.push_back({"output.weight", "F32", {64, 100}, 0, 0});
    operations = engine::countOperations(model);
    QCOMPARE(operations->head.integer, 0.0);
    QCOMPARE(operations->head.floating, 2.0 * 6400);
    QCOMPARE(operations->body.integer, 2.0 * 64 * 128 * 2);
    model.format = "safetensors";
    QVERIFY(!engine::countOperations(model).has_value());
}

QTEST_GUILESS_MAIN(BenchTest)
#include "tst_bench.moc"
