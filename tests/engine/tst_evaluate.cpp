// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/error.h"
#include "engine/api/evaluate.h"
#include "tests/support/shared_data.h"
#include "tests/support/windowed_llama.h"

#include <QtTest>

#include <cmath>
#include <cstring>

using engine::EngineConfig;
using engine::Error;
using engine::ErrorCode;
using engine::Evaluator;
using engine::KvType;

namespace {

std::string tinyLlama()
{
    return shared_data::data(QStringLiteral("tiny-llama/llama-f16.gguf")).toStdString();
}

EngineConfig configOf(bool reference)
{
    EngineConfig config;
    config.backend = reference ? engine::BackendKind::Reference : engine::BackendKind::Auto;
    config.threads = 2;
    return config;
}

std::vector<int> someIds(int count)
{
    std::vector<int> ids;
    for (int i = 0; i < count; ++i)
        ids.push_back((i * 37 + 11) % 320);
    return ids;
}

std::vector<float> logitsOf(Evaluator &evaluator, const std::vector<int> &ids, bool all)
{
    std::vector<float> rows;
    evaluator.logits(ids, all, [&](std::span<const float> row) { rows.insert(rows.end(), row.begin(), row.end()); },
                     {});
    return rows;
}

/// The code of what a call throws; Internal when it throws nothing of ours.
template<typename Function> ErrorCode codeOf(Function function, QByteArray *message = nullptr)
{
    try {
        function();
    } catch (const Error &error) {
        if (message)
            *message = error.what();
        return error.code();
    }
    return ErrorCode::Internal;
}

/// Gives position p the logits 0 … 0 with `p` more for the id that follows it in its own list.
class ScriptedEvaluator : public Evaluator {
public:
    std::vector<int> text;
    bool bos = false;
    std::vector<std::vector<int>> seen;

    [[nodiscard]] const engine::ModelInfo &info() const override { return m_info; }
    [[nodiscard]] engine::EngineTotals totals() const override { return {}; }
    [[nodiscard]] int vocabSize() const override { return 10; }
    [[nodiscard]] bool addsBos() const override { return bos; }
    [[nodiscard]] int bosId() const override { return 9; }
    [[nodiscard]] std::vector<int> encode(const std::string &) const override { return text; }
    void logits(std::span<const int> ids, bool, const std::function<void(std::span<const float>)> &row,
                std::stop_token) override
    {
        seen.emplace_back(ids.begin(), ids.end());
        for (std::size_t i = 0; i < ids.size(); ++i) {
            std::vector<float> values(10, 0.0F);
            if (i + 1 < ids.size())
                values[static_cast<std::size_t>(ids[i + 1])] = static_cast<float>(i);
            row(values);
        }
    }

private:
    engine::ModelInfo m_info;
};

} // namespace

class EvaluateTest : public QObject {
    Q_OBJECT
private slots:
    void resultsDoNotDependOnLimits_data();
    void resultsDoNotDependOnLimits();
    void lastPositionOnly();
    void refusesBadIds();
    void refusesMoreThanTheContext();
    void stops();
    void windowsAreSizedForOneSequence();
    void perplexityOfKnownRows();
    void perplexityReplacesTheFirstTokenByBos();
    void perplexityRefusesShortTexts();
    void perplexityOfTheTinyModel();
    void divergenceOfKvTypes();
    void divergenceOfKnownRows();
};

void EvaluateTest::resultsDoNotDependOnLimits_data()
{
    QTest::addColumn<bool>("reference");
    QTest::addColumn<engine::KvType>("keys");
    QTest::addColumn<engine::KvType>("values");
    QTest::newRow("reference") << true << KvType::Auto << KvType::Auto;
    QTest::newRow("cpu") << false << KvType::Auto << KvType::Auto;
    QTest::newRow("cpu q8_0") << false << KvType::Q8_0 << KvType::Auto;
    QTest::newRow("cpu fp8") << false << KvType::FP8 << KvType::Auto;
    QTest::newRow("cpu bf16 and q8_0") << false << KvType::BF16 << KvType::Q8_0;
}

void EvaluateTest::resultsDoNotDependOnLimits()
{
    QFETCH(bool, reference);
    QFETCH(KvType, keys);
    QFETCH(KvType, values);
    const auto base = [=] {
        EngineConfig config = configOf(reference);
        config.kv.type = keys;
        config.kv.valueType = values;
        return config;
    };
    const std::vector<int> ids = someIds(200);
    const std::vector<float> wanted = logitsOf(*engine::openEvaluator(tinyLlama(), base(), {}), ids, true);
    QCOMPARE(wanted.size(), std::size_t{200 * 320});
    for (const int batched : {1, 7, 64, 2048}) {
        for (const int blockTokens : {8, 64}) {
            EngineConfig config = base();
            config.limits.maxNumBatchedTokens = batched;
            config.kv.blockTokens = blockTokens;
            config.threads = 1;
            const std::vector<float> found = logitsOf(*engine::openEvaluator(tinyLlama(), config, {}), ids, true);
            QCOMPARE(found.size(), wanted.size());
            QVERIFY2(std::memcmp(found.data(), wanted.data(), wanted.size() * sizeof(float)) == 0,
                     qPrintable(QStringLiteral("%1 tokens, blocks of %2").arg(batched).arg(blockTokens)));
        }
    }
}

void EvaluateTest::lastPositionOnly()
{
    EngineConfig config = configOf(true);
    config.limits.maxNumBatchedTokens = 16;
    const auto evaluator = engine::openEvaluator(tinyLlama(), config, {});
    const std::vector<float> all = logitsOf(*evaluator, someIds(50), true);
    const std::vector<float> last = logitsOf(*evaluator, someIds(50), false);
    QCOMPARE(last.size(), std::size_t{320});
    QVERIFY(std::memcmp(last.data(), all.data() + 49 * 320, 320 * sizeof(float)) == 0);
}

void EvaluateTest::refusesBadIds()
{
    const auto evaluator = engine::openEvaluator(tinyLlama(), configOf(true), {});
    QByteArray message;
    QCOMPARE(codeOf([&] { (void)logitsOf(*evaluator, {1, 320}, true); }, &message), ErrorCode::Refused);
    QVERIFY2(message.contains("320") && message.contains("position 1"), message.constData());
    QCOMPARE(codeOf([&] { (void)logitsOf(*evaluator, {-1}, true); }), ErrorCode::Refused);
    QCOMPARE(codeOf([&] { (void)logitsOf(*evaluator, {}, true); }), ErrorCode::Refused);
}

void EvaluateTest::refusesMoreThanTheContext()
{
    const auto evaluator = engine::openEvaluator(tinyLlama(), configOf(true), {});
    QByteArray message;
    QCOMPARE(codeOf([&] { (void)logitsOf(*evaluator, someIds(513), false); }, &message), ErrorCode::Refused);
    QVERIFY2(message.contains("513") && message.contains("512"), message.constData());
    QCOMPARE(logitsOf(*evaluator, someIds(512), false).size(), std::size_t{320});
    EngineConfig small = configOf(true);
    small.maxModelLen = 10;
    const auto shorter = engine::openEvaluator(tinyLlama(), small, {});
    QCOMPARE(codeOf([&] { (void)logitsOf(*shorter, someIds(11), false); }), ErrorCode::Refused);
    QCOMPARE(logitsOf(*shorter, someIds(10), true).size(), std::size_t{10 * 320});
}

void EvaluateTest::stops()
{
    std::stop_source stop;
    EngineConfig config = configOf(true);
    config.limits.maxNumBatchedTokens = 8;
    const auto evaluator = engine::openEvaluator(tinyLlama(), config, {});
    int rows = 0;
    QCOMPARE(codeOf([&] {
                 evaluator->logits(
                     someIds(100), true,
                     [&](std::span<const float>) {
                         if (++rows == 10)
                             stop.request_stop();
                     },
                     stop.get_token());
             }),
             ErrorCode::Cancelled);
    QCOMPARE(rows, 16); // the step at hand is finished
    QCOMPARE(codeOf([&] { (void)engine::openEvaluator(tinyLlama(), config, stop.get_token()); }), ErrorCode::Cancelled);
}

void EvaluateTest::windowsAreSizedForOneSequence()
{
    const WindowedLlama file(9, 3);
    EngineConfig config = configOf(false);
    config.maxModelLen = 256;
    config.limits = {64, 32};
    config.kv.blockTokens = 8;
    const auto evaluator = engine::openEvaluator(file.path().toStdString(), config, {});
    const engine::KvPoolConfig &kv = evaluator->info().effective.kv;
    QCOMPARE(kv.numBlocks, 32);
    QCOMPARE(kv.windowBlocks, 2 + 2 + 4); // a window with the block at its edge and one that is begun, and a step
    QVERIFY(evaluator->totals().workspaceBytes
            >= 32U * sizeof(float) * static_cast<std::size_t>(evaluator->vocabSize()));
    const auto whole = engine::openEvaluator(tinyLlama(), config, {});
    QCOMPARE(whole->info().effective.kv.windowBlocks, 0);
}

void EvaluateTest::perplexityOfKnownRows()
{
    ScriptedEvaluator evaluator;
    evaluator.text = {1, 2, 3, 4, 5, 6, 7, 8};
    int calls = 0;
    engine::PerplexityOptions options;
    options.context = 3;
    options.progress = [&](int done, int total) {
        QCOMPARE(done, ++calls);
        QCOMPARE(total, 2);
    };
    const engine::PerplexityResult result = engine::perplexity(evaluator, "text", options, {});
    QCOMPARE(evaluator.seen, (std::vector<std::vector<int>>{{1, 2, 3}, {4, 5, 6}})); // 7, 8 are no whole chunk
    // Position 0 gives ten equal logits, position 1 a lead of 1.
    const double even = std::log(10.0);
    const double ahead = std::log(9.0 + std::exp(1.0)) - 1.0;
    QCOMPARE(result.tokens, std::size_t{4});
    QCOMPARE(result.logprobs.size(), std::size_t{4});
    QVERIFY(std::abs(result.logprobs[0] + even) < 1e-6 && std::abs(result.logprobs[3] + ahead) < 1e-6);
    QVERIFY(std::abs(result.nll - (even + ahead) / 2) < 1e-9);
    QVERIFY(std::abs(result.perplexity - std::exp(result.nll)) < 1e-9);
    const double deviation = (even - ahead) / 2;
    QVERIFY(std::abs(result.standardError - result.perplexity * deviation / std::sqrt(3.0)) < 1e-9);
    QCOMPARE(calls, 2);
}

void EvaluateTest::perplexityReplacesTheFirstTokenByBos()
{
    ScriptedEvaluator evaluator;
    evaluator.text = {1, 2, 3, 4};
    evaluator.bos = true;
    engine::PerplexityOptions options;
    options.context = 2;
    (void)engine::perplexity(evaluator, "text", options, {});
    QCOMPARE(evaluator.seen, (std::vector<std::vector<int>>{{9, 2}, {9, 4}}));
}

void EvaluateTest::perplexityRefusesShortTexts()
{
    ScriptedEvaluator evaluator;
    evaluator.text = {1, 2, 3};
    engine::PerplexityOptions options;
    options.context = 4;
    QByteArray message;
    QCOMPARE(codeOf([&] { (void)engine::perplexity(evaluator, "text", options, {}); }, &message), ErrorCode::Refused);
    QVERIFY2(message.contains("3 tokens") && message.contains("4"), message.constData());
    options.context = 1;
    QCOMPARE(codeOf([&] { (void)engine::perplexity(evaluator, "text", options, {}); }), ErrorCode::InvalidArgument);
}

/// The same figure from the logits of every chunk on its own.
void EvaluateTest::divergenceOfKvTypes()
{
    const std::string text(300, 'a');
    const auto measured = [&text](KvType type, KvType against) {
        EngineConfig config = configOf(false);
        config.kv.type = type;
        const auto evaluator = engine::openEvaluator(tinyLlama(), config, {});
        engine::PerplexityOptions options;
        options.context = 50;
        options.klAgainst = against;
        const engine::PerplexityResult result = engine::perplexity(*evaluator, text, options, {});
        options.klAgainst = KvType::Auto;
        const engine::PerplexityResult alone = engine::perplexity(*evaluator, text, options, {});
        // The other cache must not have touched the one that is measured.
        if (result.logprobs != alone.logprobs || alone.kl || !result.kl)
            throw Error(ErrorCode::Internal, "a comparison changed what is compared");
        return *result.kl;
    };
    const engine::KlResult same = measured(KvType::F32, KvType::F32);
    QCOMPARE(same.max, 0.0);
    QCOMPARE(same.sameTop, 1.0);
    const double half = measured(KvType::F16, KvType::F32).mean;
    const double quant = measured(KvType::Q8_0, KvType::F32).mean;
    const engine::KlResult fp8 = measured(KvType::FP8, KvType::F32);
    QVERIFY2(half > 0 && half < quant && quant < fp8.mean,
             qPrintable(QStringLiteral("%1 %2 %3").arg(half).arg(quant).arg(fp8.mean)));
    QVERIFY(fp8.median <= fp8.p99 && fp8.p99 <= fp8.max && fp8.mean < 1e-2);
}

void EvaluateTest::divergenceOfKnownRows()
{
    /// Two tokens: evenly likely by the reference, 3 : 1 in the row that is compared.
    class Pairs final : public ScriptedEvaluator {
    public:
        void compareKv(std::span<const int> ids, KvType,
                       const std::function<void(std::span<const float>, std::span<const float>)> &row,
                       std::stop_token) override
        {
            const std::vector<float> found{std::log(3.0F), 0.0F};
            const std::vector<float> wanted{1.0F, 1.0F};
            for (std::size_t i = 0; i < ids.size(); ++i)
                row(found, wanted);
        }
    };
    Pairs evaluator;
    evaluator.text = {0, 1, 0, 1};
    engine::PerplexityOptions options;
    options.context = 4;
    options.klAgainst = KvType::F32;
    const engine::PerplexityResult result = engine::perplexity(evaluator, "", options, {});
    const double wanted = 0.5 * std::log(0.5 / 0.75) + 0.5 * std::log(0.5 / 0.25);
    QVERIFY(std::abs(result.kl->mean - wanted) < 1e-6 && std::abs(result.kl->max - wanted) < 1e-6);
    QCOMPARE(result.kl->sameTop, 1.0);
    QCOMPARE(result.tokens, std::size_t{3});
    ScriptedEvaluator without;
    without.text = {0, 1, 0, 1};
    QCOMPARE(codeOf([&] { (void)engine::perplexity(without, "", options, {}); }), ErrorCode::InvalidArgument);
}

void EvaluateTest::perplexityOfTheTinyModel()
{
    const auto evaluator = engine::openEvaluator(tinyLlama(), configOf(true), {});
    const std::string text(300, 'a');
    const std::vector<int> ids = evaluator->encode(text);
    QVERIFY(ids.size() > 60);
    engine::PerplexityOptions options;
    options.context = 25;
    const engine::PerplexityResult result = engine::perplexity(*evaluator, text, options, {});
    const std::size_t chunks = ids.size() / 25;
    QCOMPARE(result.tokens, chunks * 24);
    double sum = 0;
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
        const std::vector<int> part(ids.begin() + static_cast<std::ptrdiff_t>(chunk * 25),
                                    ids.begin() + static_cast<std::ptrdiff_t>(chunk * 25 + 25));
        const std::vector<float> logits = logitsOf(*evaluator, part, true);
        for (std::size_t i = 0; i < 24; ++i) {
            double total = 0;
            for (std::size_t id = 0; id < 320; ++id)
                total += std::exp(static_cast<double>(logits[i * 320 + id]));
            sum += std::log(total) - static_cast<double>(logits[i * 320 + static_cast<std::size_t>(part[i + 1])]);
        }
    }
    QVERIFY(std::abs(result.nll - sum / static_cast<double>(result.tokens)) < 1e-5);
}

QTEST_GUILESS_MAIN(EvaluateTest)
#include "tst_evaluate.moc"
