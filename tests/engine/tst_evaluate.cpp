// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/error.h"
#include "engine/api/evaluate.h"
#include "tests/support/shared_data.h"

#include <QtTest>

#include <cmath>
#include <cstring>

using engine::EngineConfig;
using engine::Error;
using engine::ErrorCode;
using engine::Evaluator;

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
class ScriptedEvaluator final : public Evaluator {
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
    void perplexityOfKnownRows();
    void perplexityReplacesTheFirstTokenByBos();
    void perplexityRefusesShortTexts();
    void perplexityOfTheTinyModel();
};

void EvaluateTest::resultsDoNotDependOnLimits_data()
{
    QTest::addColumn<bool>("reference");
    QTest::newRow("reference") << true;
    QTest::newRow("cpu") << false;
}

void EvaluateTest::resultsDoNotDependOnLimits()
{
    QFETCH(bool, reference);
    const std::vector<int> ids = someIds(200);
    const std::vector<float> wanted = logitsOf(*engine::openEvaluator(tinyLlama(), configOf(reference), {}), ids, true);
    QCOMPARE(wanted.size(), std::size_t{200 * 320});
    for (const int batched : {1, 7, 64, 2048}) {
        for (const int blockTokens : {8, 64}) {
            EngineConfig config = configOf(reference);
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
