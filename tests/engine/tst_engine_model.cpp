// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/engine.h"

#include "tests/support/engine_driver.h"
#include "tests/support/shared_data.h"

#include <QFileInfo>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QTest>

#include <algorithm>
#include <random>

using namespace engine;

namespace {

constexpr int demoRequests = shared_data::sanitized ? 8 : 64; // the demo model is some ten times slower there

struct Workload {
    std::string path;
    EngineConfig config;
    std::vector<Request> requests;
};

/// Requests of mixed length on random ids: half of them share a beginning, half of them draw.
std::vector<Request> mixedRequests(int count, int vocab, int longestPrompt, int longestOutput)
{
    std::mt19937 random(5);
    const auto pick = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    std::vector<int> shared(static_cast<std::size_t>(longestPrompt));
    for (int &id : shared)
        id = pick(vocab);
    std::vector<Request> requests;
    for (int i = 0; i < count; ++i) {
        std::vector<int> ids(shared.begin(), shared.begin() + 1 + pick(longestPrompt));
        if (i % 2)
            std::ranges::generate(ids, [&] { return pick(vocab); });
        Request request;
        request.ids = ids;
        request.sampling.temperature = i % 4 < 2 ? 0.0 : 0.9;
        request.sampling.seed = random();
        request.sampling.maxTokens = 1 + pick(longestOutput);
        request.sampling.repetitionPenalty = i % 8 == 6 ? 1.2 : 1.0;
        request.sampling.ignoreEos = true;
        requests.push_back(std::move(request));
    }
    return requests;
}

/// A served model; `error` names why it could not be loaded.
struct Server {
    Server(const std::string &path, const EngineConfig &config)
    {
        if (!driver.load(path, config))
            error = driver.failed.empty() ? "the load did not end" : driver.failed[0].message;
    }

    std::vector<std::vector<int>> run(const std::vector<Request> &requests)
    {
        const std::vector<RequestId> ids = engine->submitAll(requests);
        if (!driver.until(
                [&] {
                    return std::ranges::all_of(ids,
                                               [&](RequestId id) { return driver.answers[id].finished.has_value(); });
                },
                std::chrono::minutes(9)))
            return {};
        std::vector<std::vector<int>> outputs;
        for (const RequestId id : ids) {
            if (driver.answers[id].finished->reason != FinishReason::Length)
                qWarning("request %d ended with %s: %s", static_cast<int>(id),
                         toString(driver.answers[id].finished->reason), driver.answers[id].finished->error.c_str());
            outputs.push_back(driver.answers[id].ids);
        }
        return outputs;
    }

    std::unique_ptr<Engine> engine = makeEngine();
    EngineDriver driver{*engine};
    std::string error;
};

} // namespace

class TestEngineModel : public QObject {
    Q_OBJECT

private slots:
    void together_data()
    {
        QTest::addColumn<QString>("path");
        QTest::addColumn<bool>("reference");
        QTest::addColumn<int>("count");
        QTest::newRow("tiny llama, reference") << tiny() << true << 64;
        QTest::newRow("tiny llama, default backend") << tiny() << false << 64;
        QTest::newRow("demo model, default backend") << shared_data::demoModel() << false << demoRequests;
    }

    /// What requests get together, in blocks of every size and in a pool that is too small, is what each gets alone.
    void together()
    {
        QFETCH(QString, path);
        QFETCH(bool, reference);
        QFETCH(int, count);
        if (path.isEmpty())
            QSKIP("needs the model: tiny/models/llama/llama-f16.gguf, or SmolLM2-135M-Instruct.Q4_1.gguf");
        const bool demo = path == shared_data::demoModel();
        EngineConfig config;
        config.backend = reference ? BackendKind::Reference : BackendKind::Auto;
        config.maxModelLen = demo ? 128 : 0;
        config.kv.numBlocks = 512;

        std::vector<Request> requests;
        std::vector<std::vector<int>> alone;
        {
            EngineConfig single = config;
            single.limits.maxNumSeqs = 1;
            single.kv.prefixCaching = false;
            Server server(path.toStdString(), single);
            QVERIFY2(server.error.empty(), server.error.c_str());
            requests = mixedRequests(count, server.driver.loaded[0].vocabSize, demo ? 40 : 100, demo ? 8 : 24);
            alone = server.run(requests);
            QCOMPARE(alone.size(), requests.size());
        }
        struct Pool {
            int blockTokens;
            int blocks;
        };
        std::vector<Pool> pools{{8, 2048}, {16, demo ? 16 : 24}};
        if (!demo || shared_data::fullTier())
            pools.insert(pools.end(), {{16, 1024}, {64, 256}});
        for (const auto &[blockTokens, blocks] : pools) {
            config.kv.blockTokens = blockTokens;
            config.kv.numBlocks = blocks;
            config.limits.maxNumBatchedTokens = 200;
            Server server(path.toStdString(), config);
            QVERIFY2(server.error.empty(), server.error.c_str());
            const auto together = server.run(requests);
            QCOMPARE(together.size(), alone.size());
            for (std::size_t i = 0; i < alone.size(); ++i)
                QVERIFY2(together[i] == alone[i],
                         qPrintable(QString("request %1, blocks of %2").arg(i).arg(blockTokens)));
            const EngineTotals totals = server.engine->totals();
            QCOMPARE(totals.blocksFree, totals.blocksTotal);
            QVERIFY(totals.maxRunning > 1);
            if (blocks < 100 && count == 64) // too small for all: some had to wait for others, or to begin again
                QVERIFY(totals.maxRunning < 64);
        }
    }

    /// Greedy answers equal the recorded ones up to the first step that a rounding could decide.
    void greedyEqualsTheGoldens()
    {
        const QString golden = shared_data::path(QStringLiteral("goldens/smollm2/lm_transformers.jsonl.xz"));
        const QString model = shared_data::demoModel();
        if (golden.isEmpty() || model.isEmpty())
            QSKIP("needs goldens/smollm2/lm_transformers.jsonl.xz and SmolLM2-135M-Instruct.Q4_1.gguf");
        constexpr double safeMargin = 0.35; // of logits, with 8-bit activations
        Server server(model.toStdString(), {});
        QVERIFY2(server.error.empty(), server.error.c_str());
        std::vector<Request> requests;
        std::vector<std::vector<int>> expected;
        for (const QByteArray &line : shared_data::read(golden).split('\n')) {
            const QJsonObject record = QJsonDocument::fromJson(line).object();
            if (record.isEmpty())
                continue;
            std::vector<int> ids = intsOf(record["greedy_ids"]);
            const QJsonArray margins = record["margins"].toArray();
            const auto close =
                std::ranges::find_if(margins, [](const QJsonValue &margin) { return margin.toDouble() < safeMargin; });
            ids.resize(static_cast<std::size_t>(close - margins.begin()));
            expected.push_back(std::move(ids));
            Request request;
            request.ids = intsOf(record["prompt_ids"]);
            request.sampling.temperature = 0;
            request.sampling.ignoreEos = true;
            request.sampling.maxTokens = 64;
            requests.push_back(std::move(request));
            if (static_cast<int>(requests.size()) == demoRequests)
                break;
        }
        QVERIFY(!requests.empty());
        const auto outputs = server.run(requests);
        QCOMPARE(outputs.size(), expected.size());
        std::size_t compared = 0;
        for (std::size_t i = 0; i < expected.size(); ++i) {
            QCOMPARE(outputs[i].size(), 64U);
            QVERIFY2(std::equal(expected[i].begin(), expected[i].end(), outputs[i].begin()),
                     qPrintable(QString("prompt %1").arg(i)));
            compared += expected[i].size();
        }
        QVERIFY2(compared >= 2 * expected.size(), qPrintable(QString::number(compared)));
    }

    void aBadFileIsRefusedAndAGoodOneRunsAfterwards()
    {
        if (tiny().isEmpty())
            QSKIP("needs the model: tiny/models/llama/llama-f16.gguf");
        EngineConfig config;
        config.backend = BackendKind::Reference;
        Server bad("/no/such/file.gguf", config);
        QVERIFY(bad.error.find("/no/such/file.gguf") != std::string::npos);
        bad.driver.failed.clear();
        QVERIFY(bad.driver.load(tiny().toStdString(), config));
        QCOMPARE(bad.run(mixedRequests(3, 64, 10, 5)).size(), 3U);
    }

private:
    static std::vector<int> intsOf(const QJsonValue &list)
    {
        std::vector<int> ints;
        for (const QJsonValue value : list.toArray())
            ints.push_back(value.toInt());
        return ints;
    }

    static QString tiny()
    {
        const QString copy = shared_data::data(QStringLiteral("tiny-llama/llama-f16.gguf"));
        return QFileInfo::exists(copy) ? copy : shared_data::path(QStringLiteral("tiny/models/llama/llama-f16.gguf"));
    }
};

QTEST_GUILESS_MAIN(TestEngineModel)
#include "tst_engine_model.moc"
