// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/model_registry.h"
#include "engine/runtime/scheduler.h"
#include "engine/runtime/thread_governor.h"
#include "tests/support/shared_data.h"
#include "tests/support/tiny_model.h"

#include <QtTest>

#include <algorithm>
#include <cstring>

using tiny_model::allLogits;
using tiny_model::makeBatch;

namespace {

std::vector<int> someIds(int count, int step)
{
    std::vector<int> ids;
    for (int i = 0; i < count; ++i)
        ids.push_back((i * step + 3) % 40);
    return ids;
}

bool same(const std::vector<float> &a, const std::vector<float> &b)
{
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<float> rowsOf(const kernels::TensorView &logits, std::int64_t first, std::int64_t count)
{
    const float *begin = logits.as<float>() + first * logits.shape[1];
    return {begin, begin + count * logits.shape[1]};
}

} // namespace

/// Every test runs on both backends: results must not depend on how work is cut, bit for bit.
class ModelRunnerTest : public QObject {
    Q_OBJECT
private slots:
    void chunksDoNotMatter_data() { backends(); }
    void chunksDoNotMatter();
    void blocksDoNotMatter_data() { backends(); }
    void blocksDoNotMatter();
    void neighboursDoNotMatter_data() { backends(); }
    void neighboursDoNotMatter();
    void threadsDoNotMatter_data() { backends(); }
    void threadsDoNotMatter();
    void onlyWantedRows_data() { backends(); }
    void onlyWantedRows();
    void copiedBlocksCarryTheirTokens_data() { backends(); }
    void copiedBlocksCarryTheirTokens();
    void windowsHoldTheLastTokensOnly_data();
    void windowsHoldTheLastTokensOnly();
    void resizingReplacesThePool();
    void aFailedResizeKeepsThePool();
    void roomIsReservedOnce();
    void profileCountsEveryOperation();
    void threadsFollowTheMachine_data();
    void threadsFollowTheMachine();

private:
    static void backends();
    std::unique_ptr<engine::ModelRunner> runner(int blocks, int blockTokens);
    tiny_model::MemoryCheckpoint m_checkpoint = tiny_model::makeLlama({.biases = true});
};

void ModelRunnerTest::threadsFollowTheMachine_data()
{
    QTest::addColumn<int>("most");
    QTest::addColumn<bool>("disturbed");
    QTest::addColumn<QList<double>>("seconds"); // by number of threads
    QTest::addColumn<int>("wanted");
    QTest::newRow("two cores, free") << 2 << false << QList<double>{10, 5.5} << 2;
    QTest::newRow("two cores, one taken") << 2 << true << QList<double>{10, 14} << 1;
    QTest::newRow("two cores, taken by many, two still better") << 2 << true << QList<double>{20, 15} << 2;
    QTest::newRow("four cores, two taken") << 4 << true << QList<double>{12, 6, 9, 11} << 2;
    QTest::newRow("one thread") << 1 << true << QList<double>{10} << 1;
    QTest::newRow("no gain worth a change") << 2 << true << QList<double>{9.9, 10} << 2;
}

/// Steps that take as long as the number of threads makes them: the numbers in use settle where they are fastest, and
/// all together take hardly longer than with that number from the beginning.
void ModelRunnerTest::threadsFollowTheMachine()
{
    QFETCH(int, most);
    QFETCH(bool, disturbed);
    QFETCH(QList<double>, seconds);
    QFETCH(int, wanted);
    engine::ThreadGovernor governor(most);
    double taken = 0;
    const int steps = 4000;
    QMap<int, int> used;
    for (int step = 0; step < steps; ++step) {
        const int threads = governor.threads();
        QVERIFY(threads >= 1 && threads <= most);
        const double time = seconds[threads - 1];
        governor.note({step % 50 == 7 ? 2 : 1, time, disturbed});
        taken += time;
        if (step > steps / 4)
            ++used[threads];
    }
    QVERIFY2(used[wanted] > steps / 2, qPrintable(QString::number(used[wanted])));
    QVERIFY2(taken < 1.1 * seconds[wanted - 1] * steps, qPrintable(QString::number(taken)));
    // The machine is free again: all threads come back.
    for (int step = 0; step < 10000 && governor.threads() != most; ++step)
        governor.note({1, 10.0 / governor.threads(), false});
    int all = 0;
    for (int step = 0; step < 1000; ++step) {
        all += governor.threads() == most;
        governor.note({1, 10.0 / governor.threads(), false});
    }
    QVERIFY2(all > 900, qPrintable(QString::number(all)));
}

void ModelRunnerTest::backends()
{
    QTest::addColumn<bool>("reference");
    QTest::newRow("reference") << true;
    QTest::newRow("cpu") << false;
}

std::unique_ptr<engine::ModelRunner> ModelRunnerTest::runner(int blocks, int blockTokens)
{
    QFETCH(bool, reference);
    auto made = tiny_model::makeRunner(m_checkpoint, {.reference = reference, .threads = 2},
                                       reference ? kernels::DType::F32 : kernels::DType::F16);
    made->resizeKv({blocks, blockTokens});
    return made;
}

void ModelRunnerTest::chunksDoNotMatter()
{
    const auto run = runner(16, 8);
    const std::vector<int> ids = someIds(100, 7);
    const std::vector<float> whole = allLogits(*run, ids, 0, 8);
    QCOMPARE(whole.size(), std::size_t{100 * 40});
    for (const int chunk : {1, 3, 16, 33, 99})
        QVERIFY2(same(allLogits(*run, ids, chunk, 8), whole), qPrintable(QString::number(chunk)));
}

void ModelRunnerTest::blocksDoNotMatter()
{
    const std::vector<int> ids = someIds(100, 7);
    const auto run = runner(16, 8);
    const std::vector<float> whole = allLogits(*run, ids, 0, 8);
    QVERIFY(same(allLogits(*run, ids, 0, 8, {15, 2, 9, 0, 11, 4, 1, 14, 3, 8, 13, 6, 5}), whole));
    for (const int blockTokens : {16, 64, 128}) {
        run->resizeKv({16, blockTokens});
        QVERIFY2(same(allLogits(*run, ids, 17, blockTokens), whole), qPrintable(QString::number(blockTokens)));
    }
}

void ModelRunnerTest::neighboursDoNotMatter()
{
    const auto run = runner(64, 8);
    const std::vector<int> first = someIds(21, 7);
    const std::vector<int> second = someIds(50, 11);
    const std::vector<float> firstAlone = allLogits(*run, first, 0, 8);
    const std::vector<float> secondAlone = allLogits(*run, second, 0, 8);
    // Prefill of one beside prefill of the other, then a decode beside a chunk.
    const std::vector<int> blocksOfFirst{40, 41, 42};
    const std::vector<int> blocksOfSecond{10, 12, 11, 20, 19, 18, 17};
    const std::vector<int> head(second.begin(), second.begin() + 30);
    const std::vector<int> firstHead(first.begin(), first.begin() + 20);
    const kernels::TensorView both = run->run(makeBatch({{firstHead, 0, blocksOfFirst}, {head, 0, blocksOfSecond}}, 8));
    QVERIFY(same(rowsOf(both, 0, 20), {firstAlone.begin(), firstAlone.begin() + 20 * 40}));
    QVERIFY(same(rowsOf(both, 20, 30), {secondAlone.begin(), secondAlone.begin() + 30 * 40}));
    const std::vector<int> tail(second.begin() + 30, second.end());
    const kernels::TensorView mixed =
        run->run(makeBatch({{tail, 30, blocksOfSecond}, {{first[20]}, 20, blocksOfFirst}}, 8));
    QVERIFY(same(rowsOf(mixed, 0, 20), {secondAlone.begin() + 30 * 40, secondAlone.end()}));
    QVERIFY(same(rowsOf(mixed, 20, 1), {firstAlone.begin() + 20 * 40, firstAlone.end()}));
}

void ModelRunnerTest::threadsDoNotMatter()
{
    const auto run = runner(16, 16);
    const std::vector<int> ids = someIds(77, 5);
    const std::vector<float> two = allLogits(*run, ids, 0, 16);
    for (const int threads : {1, 3}) {
        run->setThreads(threads);
        QCOMPARE(run->threads(), threads);
        QVERIFY(same(allLogits(*run, ids, 0, 16), two));
    }
}

void ModelRunnerTest::onlyWantedRows()
{
    const auto run = runner(16, 16);
    const std::vector<int> ids = someIds(40, 7);
    const std::vector<float> whole = allLogits(*run, ids, 0, 16);
    engine::Batch batch = makeBatch({{ids, 0, {0, 1, 2}}}, 16);
    batch.forward.logitRows = {39, 7};
    const kernels::TensorView two = run->run(batch);
    QCOMPARE(two.shape[0], std::int64_t{2});
    QVERIFY(same(rowsOf(two, 0, 1), {whole.begin() + 39 * 40, whole.end()}));
    QVERIFY(same(rowsOf(two, 1, 1), {whole.begin() + 7 * 40, whole.begin() + 8 * 40}));
    batch.forward.logitRows.clear();
    QCOMPARE(run->run(batch).shape[0], std::int64_t{0});
}

void ModelRunnerTest::copiedBlocksCarryTheirTokens()
{
    const auto run = runner(16, 8);
    const std::vector<int> ids = someIds(20, 7);
    const std::vector<float> whole = allLogits(*run, ids, 0, 8, {0, 1, 2});
    run->copyBlock({0, 9});
    run->copyBlock({1, 5});
    const kernels::TensorView tail = run->run(makeBatch({{{ids.begin() + 16, ids.end()}, 16, {9, 5, 6}}}, 8));
    QVERIFY(same(rowsOf(tail, 0, 4), {whole.begin() + 16 * 40, whole.end()}));
}

void ModelRunnerTest::windowsHoldTheLastTokensOnly_data()
{
    QTest::addColumn<bool>("reference");
    QTest::addColumn<int>("window");
    QTest::addColumn<int>("pattern");
    QTest::addColumn<int>("blockTokens");
    for (const bool reference : {true, false})
        for (const int window : {1, 7, 16, 21}) {
            if (reference && window > 7 && shared_data::fewCases())
                continue;
            for (const int pattern : {0, 2}) // all layers have it, or every second one
                QTest::addRow("%s, %d in %s layers", reference ? "reference" : "cpu", window, pattern ? "half" : "all")
                    << reference << window << pattern << (window % 2 ? 8 : 16);
        }
}

/// Four sequences in a pool with as few window slots as the rule gives: every row of logits is, bit for bit, that of a
/// pool in which all layers hold everything.
void ModelRunnerTest::windowsHoldTheLastTokensOnly()
{
    QFETCH(bool, reference);
    QFETCH(int, window);
    QFETCH(int, pattern);
    QFETCH(int, blockTokens);
    tiny_model::MemoryCheckpoint checkpoint = tiny_model::makeLlama({});
    checkpoint.set("llama.attention.sliding_window", std::int64_t{window});
    checkpoint.set("llama.attention.sliding_window_pattern", std::int64_t{pattern});
    const auto make = [&] {
        return tiny_model::makeRunner(checkpoint, {.reference = reference, .threads = 2},
                                      reference ? kernels::DType::F32 : kernels::DType::F16);
    };
    const auto whole = make();
    whole->resizeKv({32, 8});
    engine::Scheduler::Config config;
    config.limits = {3, 24};
    config.maxModelLen = 256;
    config.kv.numBlocks = 800 / blockTokens;
    config.kv.blockTokens = blockTokens;
    config.window = window;
    config.kv.windowBlocks = engine::windowBlocksFor({config.kv.numBlocks, blockTokens, window}, 3, 24);
    QVERIFY(config.kv.windowBlocks < config.kv.numBlocks);
    engine::Scheduler scheduler(config);
    const auto run = make();
    run->resizeKv(scheduler.blocks().sizes());
    QVERIFY(run->kvBytes() < whole->kvBytes() * 25 / 8);
    for (int i = 0; i < 4; ++i) {
        engine::Sequence sequence;
        sequence.id = static_cast<engine::RequestId>(i + 1);
        sequence.tokens = someIds(i == 3 ? 70 : window + i, 7 + (i % 2) * 4); // two share a beginning
        sequence.promptTokens = sequence.size();
        sequence.maxTokens = 2 * window + 9;
        scheduler.add(std::move(sequence));
    }
    for (engine::Batch batch = scheduler.schedule(0); !batch.empty(); batch = scheduler.schedule(0)) {
        const kernels::TensorView logits = run->run(batch);
        std::vector<engine::RowResult> results(batch.forward.logitRows.size());
        for (const engine::BatchRow &row : batch.rows) {
            if (!row.samples)
                continue;
            const std::vector<int> &tokens = scheduler.find(row.request)->tokens;
            const std::vector<float> all = allLogits(*whole, tokens, 0, 8);
            const std::vector<float> found = rowsOf(logits, row.logitRow, 1);
            QVERIFY2(same(found, {all.end() - 40, all.end()}), qPrintable(QString::number(tokens.size())));
            results[static_cast<std::size_t>(row.logitRow)].token =
                static_cast<int>(std::max_element(found.begin(), found.end()) - found.begin());
        }
        (void)scheduler.commit(batch, results, 0);
    }
    QVERIFY(scheduler.idle());
    QCOMPARE(scheduler.audit(), std::string());
}

void ModelRunnerTest::resizingReplacesThePool()
{
    auto run = tiny_model::makeRunner(m_checkpoint, {.reference = true, .threads = 1});
    QCOMPARE(run->kvBytes(), std::size_t{0});
    run->resizeKv({4, 8});
    const std::size_t four = run->kvBytes();
    run->resizeKv({8, 16});
    QCOMPARE(run->kvBytes(), 4 * four);
}

void ModelRunnerTest::aFailedResizeKeepsThePool()
{
    auto run = tiny_model::makeRunner(m_checkpoint, {.reference = true, .threads = 1});
    run->resizeKv({4, 8});
    const std::vector<float> before = allLogits(*run, someIds(20, 7), 0, 8);
    try {
        run->resizeKv({1 << 23, 128});
        QFAIL("a pool of a terabyte was granted");
    } catch (const kernels::Error &error) {
        QCOMPARE(error.code(), kernels::ErrorCode::OutOfMemory);
    }
    QVERIFY(same(allLogits(*run, someIds(20, 7), 0, 8), before));
}

void ModelRunnerTest::roomIsReservedOnce()
{
    auto run = tiny_model::makeRunner(m_checkpoint, {.reference = true, .threads = 1}, kernels::DType::F32, 64);
    run->resizeKv({32, 8});
    const std::size_t bytes = run->workspaceBytes();
    const std::vector<int> most = someIds(64, 7);
    QCOMPARE(allLogits(*run, most, 0, 8).size(), std::size_t{64 * 40});
    QCOMPARE(run->workspaceBytes(), bytes);
    run->reserve(32, 8); // smaller: the room stays
    QCOMPARE(run->workspaceBytes(), bytes);
    QVERIFY_EXCEPTION_THROWN((void)allLogits(*run, someIds(65, 7), 0, 8), kernels::Error);
    run->reserve(65, 65);
    QVERIFY(run->workspaceBytes() > bytes);
    QCOMPARE(allLogits(*run, someIds(65, 7), 0, 8).size(), std::size_t{65 * 40});
}

void ModelRunnerTest::profileCountsEveryOperation()
{
    engine::Profile profile;
    QCOMPARE(profile.report(2), std::string());
    auto ops = engine::profiled(kernels::makeOps({.reference = true, .threads = 1}), profile);
    const engine::ModelFamily &family = engine::familyOf(m_checkpoint);
    engine::WeightLoader loader(m_checkpoint, *ops, {}, {});
    auto model = family.load(family.readConfig(m_checkpoint), loader);
    engine::ModelRunner run(std::move(ops), std::move(model), engine::KvTypes{kernels::DType::F32, kernels::DType::F32},
                            &profile);
    run.reserve(8, 8);
    run.resizeKv({2, 8});
    for (int i = 0; i < 3; ++i)
        (void)allLogits(run, someIds(5, 7), 0, 8);
    const auto calls = [&profile](int layer, const char *name) {
        const auto found = profile.entries().find({layer, name});
        return found == profile.entries().end() ? std::int64_t{0} : found->second.calls;
    };
    QCOMPARE(calls(engine::Profile::before, "embed"), std::int64_t{3});
    for (int layer = 0; layer < 2; ++layer) {
        QCOMPARE(calls(layer, "linear"), std::int64_t{3});
        QCOMPARE(calls(layer, "linearAdd"), std::int64_t{6});
        QCOMPARE(calls(layer, "rmsNorm"), std::int64_t{6});
        QCOMPARE(calls(layer, "rope"), std::int64_t{6});
        QCOMPARE(calls(layer, "pagedAttention"), std::int64_t{3});
    }
    QCOMPARE(calls(2, "linear"), std::int64_t{3});
    const QString report = QString::fromStdString(profile.report(2));
    for (const char *word : {"pagedAttention", "embedding", "layer 1", "output", "all steps"})
        QVERIFY2(report.contains(QLatin1String(word)), qPrintable(report));
}

QTEST_GUILESS_MAIN(ModelRunnerTest)
#include "tst_model_runner.moc"
