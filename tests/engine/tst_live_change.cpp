// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/engine_fixture.h"
#include "tests/support/shared_data.h"
#include "tests/support/windowed_llama.h"

#include <QFileInfo>
#include <QTest>

#include <algorithm>
#include <map>
#include <memory>
#include <random>

using namespace engine;
using namespace engine_fixture;
using namespace std::chrono_literals;

namespace {

QString tiny()
{
    const QString copy = shared_data::data(QStringLiteral("tiny-llama/llama-f16.gguf"));
    return QFileInfo::exists(copy) ? copy : shared_data::path(QStringLiteral("tiny/models/llama/llama-f16.gguf"));
}

KvPoolConfig pool(int blocks, int blockTokens, bool prefixCaching = true)
{
    KvPoolConfig kv;
    kv.numBlocks = blocks;
    kv.blockTokens = blockTokens;
    kv.prefixCaching = prefixCaching;
    return kv;
}

/// A chat's question: half of them share a beginning, half of them draw.
Request chat(int index, int promptTokens, int outputTokens, unsigned vocab = 300)
{
    std::mt19937 random(static_cast<unsigned>(index % 2 ? index : 0));
    std::vector<int> ids(static_cast<std::size_t>(promptTokens + index % 7));
    for (int &id : ids)
        id = static_cast<int>(random() % vocab);
    Request request = ask(std::move(ids), greedy(outputTokens));
    request.sampling.temperature = index % 4 < 2 ? 0.0 : 0.9;
    request.sampling.seed = static_cast<std::uint64_t>(index) * 7 + 1;
    return request;
}

/// An engine on a tiny model.
struct Tiny {
    explicit Tiny(const EngineConfig &config, const QString &file = tiny())
    {
        if (!driver.load(file.toStdString(), config))
            qFatal("the tiny model does not load");
    }
    std::unique_ptr<Engine> engine = makeEngine();
    EngineDriver driver{*engine};
};

/// What each request gets alone, computed whole, without a cache.
std::vector<std::vector<int>> alone(const std::vector<Request> &requests, const QString &file = tiny())
{
    EngineConfig config;
    config.limits.maxNumSeqs = 1;
    config.kv = pool(64, 16, false);
    Tiny tinyModel(config, file);
    const auto ids = tinyModel.engine->submitAll(requests);
    if (!tinyModel.driver.finish(ids))
        qFatal("a request does not end");
    std::vector<std::vector<int>> outputs;
    for (const RequestId id : ids)
        outputs.push_back(tinyModel.driver.answers[id].ids);
    return outputs;
}

bool allEnded(EngineDriver &driver, const std::vector<RequestId> &ids)
{
    return std::ranges::all_of(ids, [&](RequestId id) { return driver.answers[id].finished.has_value(); });
}

} // namespace

/// Everything that may change while requests run: nothing is lost, no token differs.
class TestLiveChange : public QObject {
    Q_OBJECT

private slots:
    /// The block size is moved a hundred times while sixteen chats stream.
    void theBlockSizeMovesUnderSixteenChats()
    {
        if (tiny().isEmpty())
            QSKIP("needs the model: tiny/models/llama/llama-f16.gguf");
        constexpr int chats = 16;
        const int wanted = shared_data::fewCases() ? 12 : 100;
        std::vector<Request> requests;
        for (int i = 0; i < chats; ++i)
            requests.push_back(chat(i, 40, 300));
        const auto undisturbed = alone(requests);
        EngineConfig config;
        config.kv = pool(512, 16);
        Tiny tinyModel(config);
        EngineDriver &driver = tinyModel.driver;
        int changes = 0;
        for (int round = 0; round < 20 && changes < wanted; ++round) {
            const auto ids = tinyModel.engine->submitAll(requests);
            while (driver.take(), !allEnded(driver, ids)) {
                const int blockTokens = 8 << ((changes * 3 + round) % 5);
                const std::uint64_t revision =
                    tinyModel.engine->setKvPool(pool(8192 / blockTokens, blockTokens, changes % 11 != 10));
                QVERIFY(driver.until(
                    [&] { return !driver.applied.empty() && driver.applied.back().revision == revision; }));
                const ParametersApplied &applied = driver.applied.back();
                QCOMPARE(applied.effective.kv.blockTokens, blockTokens);
                QVERIFY2(applied.note.empty(), applied.note.c_str());
                changes += allEnded(driver, ids) ? 0 : 1;
            }
            for (std::size_t i = 0; i < chats; ++i)
                QVERIFY2(driver.answers[ids[i]].ids == undisturbed[i],
                         qPrintable(QStringLiteral("chat %1 of round %2").arg(i).arg(round)));
        }
        QVERIFY2(changes >= wanted, qPrintable(QString::number(changes)));
        QCOMPARE(tinyModel.engine->totals().blocksFree, tinyModel.engine->totals().blocksTotal);
        QVERIFY(driver.notices.empty());
    }

    /// Random workloads on a real model with cancels, forks, pressure and live changes of everything.
    void randomSchedulesOnTinyModels_data()
    {
        QTest::addColumn<QString>("file");
        QTest::addColumn<unsigned>("vocab");
        QTest::addColumn<unsigned>("seeds");
        const auto shared = [](const char *name) { return shared_data::path(QLatin1String(name)); };
        QTest::newRow("llama") << tiny() << 300U << 12U;
        QTest::newRow("llama, windows of 11 in two of three layers") << m_windowed.path() << 300U << 8U;
        // Windows of 16 in five of six layers, and in all.
        QTest::newRow("gemma3") << shared("tiny/models/gemma3/gemma3-f16.gguf") << 300U << 4U;
        QTest::newRow("mistral") << shared("tiny/models/mistral-swa") << 300U << 4U;
    }
    void randomSchedulesOnTinyModels()
    {
        QFETCH(QString, file);
        QFETCH(unsigned, vocab);
        QFETCH(unsigned, seeds);
        if (file.isEmpty() || !QFileInfo::exists(file))
            QSKIP(qPrintable(QStringLiteral("needs the model: tiny/models/%1").arg(QTest::currentDataTag())));
        constexpr int known = 24;
        std::vector<Request> requests;
        for (int i = 0; i < known; ++i)
            requests.push_back(chat(i, 4 + i * 5, 4 + i * 2, vocab));
        const auto expected = alone(requests, file);
        seeds = shared_data::fullTier() ? 200 : seeds;
        std::uint64_t preemptions = 0;
        for (unsigned seed = 0; seed < seeds; ++seed) {
            const QString fault = runRandom(file, seed, requests, expected, preemptions);
            QVERIFY2(fault.isEmpty(), qPrintable(QStringLiteral("seed %1: %2").arg(seed).arg(fault)));
        }
        QVERIFY2(preemptions > seeds / 2, qPrintable(QString::number(preemptions)));
    }

    /// The layers that hold a window get room for what the limits let in; without memory for it fewer run.
    void raisedLimitsGrowTheWindows()
    {
        Fixture f;
        f.controls.window = 20;
        f.controls.beforeRun = [](const Batch & /*batch*/) { std::this_thread::sleep_for(500us); };
        EngineConfig config;
        config.kv = pool(128, 16);
        config.limits = {1, 16};
        QVERIFY(f.driver.load("model", config));
        QVERIFY(f.driver.until([&] { return f.engine.totals().windowBlocksTotal == 2 + 2 + 1; }));
        std::vector<Request> requests;
        for (int i = 0; i < 10; ++i)
            requests.push_back(ask(promptOf(40, i), greedy(60)));
        const auto ids = f.engine.submitAll(std::move(requests));
        QVERIFY(f.driver.until([&] { return f.answer(ids[0]).ids.size() > 3; }));
        (void)f.engine.setLimits({4, 64});
        QVERIFY(f.driver.until([&] { return f.driver.applied.size() == 1; }));
        QVERIFY2(f.driver.applied[0].note.empty(), f.driver.applied[0].note.c_str());
        QCOMPARE(f.driver.applied[0].effective.kv.windowBlocks, 4 * 4 + 4);
        f.controls.poolFails = true;
        (void)f.engine.setLimits({9, 64});
        QVERIFY(f.driver.until([&] { return f.driver.applied.size() == 2; }));
        QVERIFY(!f.driver.applied[1].note.empty());
        QCOMPARE(f.driver.applied[1].effective.kv.windowBlocks, 4 * 4 + 4);
        QVERIFY(f.driver.finish(ids));
        for (int i = 0; i < 10; ++i)
            QCOMPARE(f.answer(ids[static_cast<std::size_t>(i)]).ids, f.expected(promptOf(40, i), greedy(60)));
        const EngineTotals totals = f.engine.totals();
        QCOMPARE(totals.maxRunning, 4);
        QCOMPARE(totals.windowBlocksFree, totals.windowBlocksTotal);
        QCOMPARE(totals.memory.kvUsed + totals.memory.kvCached + totals.memory.kvFree, totals.kvBytes);
        QVERIFY(f.allBlocksFree());
    }

    void theBudgetShrinksAndGrowsUnderPressure()
    {
        Fixture f;
        f.controls.beforeRun = [](const Batch & /*batch*/) { std::this_thread::sleep_for(500us); };
        EngineConfig config;
        config.kv = pool(128, 16);
        QVERIFY(f.driver.load("model", config));
        std::vector<Request> requests;
        for (int i = 0; i < 12; ++i)
            requests.push_back(ask(promptOf(40, i), greedy(120)));
        const auto ids = f.engine.submitAll(std::move(requests));
        QVERIFY(f.driver.until([&] { return f.answer(ids[11]).ids.size() > 10; }));
        KvPoolConfig small;
        small.budgetBytes = std::size_t{20} * 16 * FakeServedModel::bytesPerToken;
        (void)f.engine.setKvPool(small);
        QVERIFY(f.driver.until([&] { return f.driver.applied.size() == 1; }));
        QCOMPARE(f.driver.applied[0].effective.kv.numBlocks, 20);
        QVERIFY(f.driver.applied[0].note.empty());
        QVERIFY(f.driver.until([&] { return f.engine.totals().blocksTotal == 20; }));
        QVERIFY(f.engine.totals().preemptions > 0);
        (void)f.engine.setKvPool(pool(200, 8));
        QVERIFY(f.driver.finish(ids));
        for (int i = 0; i < 12; ++i)
            QCOMPARE(f.answer(ids[static_cast<std::size_t>(i)]).ids, f.expected(promptOf(40, i), greedy(120)));
        QCOMPARE(f.engine.totals().blocksTotal, 200);
        QVERIFY(f.allBlocksFree());
    }

    /// What a running request was promised stays; the rest of the change follows when nothing runs.
    void aPoolKeepsRoomForWhatRuns()
    {
        Fixture f;
        f.controls.beforeRun = [](const Batch & /*batch*/) { std::this_thread::sleep_for(500us); };
        QVERIFY(f.driver.load("model"));
        const auto id = f.engine.submit(ask(promptOf(50, 1), greedy(150)));
        QVERIFY(f.driver.until([&] { return f.answer(id).ids.size() > 3; }));
        (void)f.engine.setKvPool(pool(4, 16));
        QVERIFY(f.driver.until([&] { return f.driver.applied.size() == 1; }));
        QCOMPARE(f.driver.applied[0].effective.kv.numBlocks, 13); // 200 tokens
        QVERIFY(f.driver.applied[0].note.find("13 blocks") != std::string::npos);
        QVERIFY(f.driver.until([&] { return f.driver.applied.size() == 2; }));
        QCOMPARE(f.driver.applied[1].effective.kv.numBlocks, 4);
        QCOMPARE(f.driver.applied[1].revision, f.driver.applied[0].revision);
        QCOMPARE(f.answer(id).ids, f.expected(promptOf(50, 1), greedy(150)));
        QCOMPARE(f.answer(id).finished->reason, FinishReason::Length);
    }

    void whatIsCachedIsFoundInBlocksOfAnotherSize()
    {
        Fixture f;
        QVERIFY(f.driver.load("model"));
        (void)f.run(ask(promptOf(100, 1), greedy(5)));
        (void)f.run(ask(promptOf(60, 2), greedy(5)));
        (void)f.engine.setKvPool(pool(100, 8));
        const auto &small = f.run(ask(promptOf(100, 1), greedy(5)));
        QCOMPARE(small.finished->usage.cachedTokens, 96);
        (void)f.engine.setKvPool(pool(20, 32));
        const auto &large = f.run(ask(promptOf(100, 1), greedy(5)));
        QCOMPARE(large.finished->usage.cachedTokens, 96);
        const auto &other = f.run(ask(promptOf(60, 2), greedy(5)));
        QCOMPARE(other.finished->usage.cachedTokens, 32);
        QCOMPARE(other.ids, f.expected(promptOf(60, 2), greedy(5)));
        (void)f.engine.setKvPool(pool(20, 32, false));
        QVERIFY(f.driver.until([&] { return f.driver.applied.size() == 3; }));
        (void)f.engine.setKvPool(pool(20, 32, true));
        QCOMPARE(f.run(ask(promptOf(60, 2), greedy(5))).finished->usage.cachedTokens, 0);
    }

    void threadsChangeBetweenSteps()
    {
        Fixture f;
        f.controls.beforeRun = [](const Batch & /*batch*/) { std::this_thread::sleep_for(1ms); };
        QVERIFY(f.driver.load("model"));
        const auto id = f.engine.submit(ask(promptOf(8, 1), greedy(200)));
        QVERIFY(f.driver.until([&] { return f.answer(id).ids.size() > 3; }));
        (void)f.engine.setThreads(3);
        QVERIFY(f.driver.until([&] { return f.driver.applied.size() == 1; }));
        QVERIFY(!f.answer(id).finished.has_value());
        QCOMPARE(f.driver.applied[0].effective.threads, 3);
        QVERIFY(f.driver.applied[0].step > 3 && f.driver.applied[0].step < 200);
        QVERIFY(f.driver.finish({id}));
        QCOMPARE(f.answer(id).ids, f.expected(promptOf(8, 1), greedy(200)));
    }

private:
    WindowedLlama m_windowed{11, 2};

    struct Asked {
        RequestId id = 0;
        std::size_t which = 0;
        bool exact = true; ///< a fork draws with a seed of its own, which has no recorded answer
        bool cancelled = false;
    };

    static QString runRandom(const QString &file, unsigned seed, const std::vector<Request> &requests,
                             const std::vector<std::vector<int>> &expected, std::uint64_t &preemptions)
    {
        std::mt19937 random(seed);
        const auto pick = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
        EngineConfig config;
        config.policy = static_cast<SchedulingPolicy>(pick(3));
        config.limits = {1 + pick(12), 16 + pick(200)};
        config.kv = pool(13 + pick(12), 16, pick(4) != 0);
        config.maxModelLen = 200;
        Tiny tinyModel(config, file);
        std::vector<Asked> asked;
        for (int round = 0; round < 20; ++round) {
            const auto which = static_cast<std::size_t>(pick(static_cast<int>(requests.size())));
            if (pick(5) == 0) {
                const auto ids = tinyModel.engine->submitForks(requests[which], 2 + pick(3));
                for (std::size_t i = 0; i < ids.size(); ++i)
                    asked.push_back({ids[i], which, i == 0 || requests[which].sampling.temperature == 0.0, false});
            } else {
                Request request = requests[which];
                request.priority = pick(3);
                asked.push_back({tinyModel.engine->submit(std::move(request)), which, true, false});
            }
            if (pick(6) == 0) {
                Asked &one = asked[static_cast<std::size_t>(pick(static_cast<int>(asked.size())))];
                tinyModel.engine->cancel(one.id);
                one.cancelled = true;
            }
            if (pick(2) == 0)
                std::this_thread::sleep_for(std::chrono::microseconds(pick(3000)));
            changeRandom(*tinyModel.engine, random);
        }
        return check(tinyModel, asked, expected, preemptions);
    }

    static void changeRandom(Engine &engine, std::mt19937 &random)
    {
        const auto pick = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
        const int blockTokens = 8 << pick(5);
        AdmissionRules rules;
        switch (pick(6)) {
        case 0:
        case 1:
            (void)engine.setKvPool(pool((200 + blockTokens - 1) / blockTokens + pick(10), blockTokens, pick(4) != 0));
            break;
        case 2:
            (void)engine.setLimits({1 + pick(12), 1 + pick(200)});
            break;
        case 3:
            rules.policy = static_cast<SchedulingPolicy>(pick(3));
            rules.admissionReserve = pick(4) / 10.0;
            (void)engine.setRules(rules);
            break;
        case 4:
            (void)engine.setThreads(1 + pick(2));
            break;
        default:
            break;
        }
    }

    static QString check(Tiny &tinyModel, const std::vector<Asked> &asked,
                         const std::vector<std::vector<int>> &expected, std::uint64_t &preemptions)
    {
        std::vector<RequestId> ids;
        for (const Asked &one : asked)
            ids.push_back(one.id);
        if (!tinyModel.driver.finish(ids))
            return QStringLiteral("a request does not end");
        for (const Asked &one : asked) {
            const auto &answer = tinyModel.driver.answers[one.id];
            std::vector<int> right = expected[one.which];
            if (one.cancelled && answer.finished->reason == FinishReason::Cancelled)
                right.resize(std::min(right.size(), answer.ids.size()));
            if (!answer.ordered || answer.ids.size() != right.size() || (one.exact && answer.ids != right))
                return QStringLiteral("request %1 (%2) got other tokens than alone: %3")
                    .arg(one.id)
                    .arg(one.which)
                    .arg(QString::fromStdString(answer.finished->error));
        }
        const EngineTotals totals = tinyModel.engine->totals();
        if (totals.blocksFree != totals.blocksTotal || totals.windowBlocksFree != totals.windowBlocksTotal
            || !tinyModel.driver.notices.empty())
            return QStringLiteral("blocks leaked");
        preemptions += totals.preemptions;
        return {};
    }
};

QTEST_GUILESS_MAIN(TestLiveChange)
#include "tst_live_change.moc"
