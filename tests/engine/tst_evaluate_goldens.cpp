// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/evaluate.h"
#include "engine/models/model.h" // before Qt, whose keywords name one of its members
#include "tests/support/shared_data.h"
#include "tests/support/tiny_model.h"

#include <QElapsedTimer>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QtTest>

#include <cmath>
#include <cstring>

using engine::Evaluator;

namespace {

/// The values of a numpy file of version 1 with four-byte elements.
template<typename T> std::vector<T> readNpy(const QString &path)
{
    const QByteArray bytes = shared_data::read(path);
    if (bytes.size() < 10)
        return {};
    const auto header =
        static_cast<qsizetype>(static_cast<unsigned char>(bytes[8]) + 256 * static_cast<unsigned char>(bytes[9]));
    std::vector<T> values(static_cast<std::size_t>(bytes.size() - 10 - header) / sizeof(T));
    std::memcpy(values.data(), bytes.constData() + 10 + header, values.size() * sizeof(T));
    return values;
}

QString golden(const char *name)
{
    return shared_data::path(QStringLiteral("goldens/smollm2/") + QLatin1String(name));
}

std::vector<int> idsOf(const QJsonValue &value)
{
    std::vector<int> ids;
    for (const QJsonValue &id : value.toArray())
        ids.push_back(id.toInt());
    return ids;
}

std::vector<float> logitsOf(Evaluator &evaluator, const std::vector<int> &ids)
{
    std::vector<float> rows;
    rows.reserve(ids.size() * static_cast<std::size_t>(evaluator.vocabSize()));
    evaluator.logits(ids, true, [&](std::span<const float> row) { rows.insert(rows.end(), row.begin(), row.end()); },
                     {});
    return rows;
}

/// An evaluator whose text is always the given ids.
class GivenIds final : public Evaluator {
public:
    GivenIds(Evaluator &evaluator, std::vector<int> given)
        : inner(evaluator)
        , ids(std::move(given))
    {
    }
    [[nodiscard]] const engine::ModelInfo &info() const override { return inner.info(); }
    [[nodiscard]] engine::EngineTotals totals() const override { return inner.totals(); }
    [[nodiscard]] int vocabSize() const override { return inner.vocabSize(); }
    [[nodiscard]] bool addsBos() const override { return inner.addsBos(); }
    [[nodiscard]] int bosId() const override { return inner.bosId(); }
    [[nodiscard]] std::vector<int> encode(const std::string &) const override { return ids; }
    void logits(std::span<const int> part, bool all, const std::function<void(std::span<const float>)> &row,
                std::stop_token stop) override
    {
        inner.logits(part, all, row, stop);
    }

    Evaluator &inner;
    std::vector<int> ids;
};

std::size_t argmax(std::span<const float> row)
{
    return static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

} // namespace

/// The demo model against transformers in float32. In the quick tier a part of the sequences, in the full tier all.
class EvaluateGoldensTest : public QObject {
    Q_OBJECT
private slots:
    void initTestCase();
    void wholeRow();
    void sequences_data();
    void sequences();
    void defaultBackendAgainstReference_data();
    void defaultBackendAgainstReference();
    void perplexityOfTheText_data();
    void perplexityOfTheText();

private:
    Evaluator &evaluator(bool reference);
    static void compareTop10(const QJsonObject &line, std::span<const float> logits, std::size_t vocab, double limit);
    static void compareTokens(const QJsonObject &line, std::span<const float> logits, std::size_t vocab, double margin);
    std::unique_ptr<Evaluator> m_evaluators[2];
    QList<QJsonObject> m_lines;
};

void EvaluateGoldensTest::initTestCase()
{
    if (shared_data::demoModel().isEmpty())
        QSKIP("the demo model SmolLM2-135M-Instruct.Q4_1.gguf is absent (LATHE_DEMO_MODEL)");
    const QString file = golden("lm_transformers.jsonl.xz");
    if (file.isEmpty())
        QSKIP("reference data is absent: goldens/smollm2/lm_transformers.jsonl.xz");
    for (const QByteArray &line : shared_data::read(file).split('\n')) {
        if (!line.isEmpty())
            m_lines.append(QJsonDocument::fromJson(line).object());
    }
    QCOMPARE(m_lines.size(), 10);
}

Evaluator &EvaluateGoldensTest::evaluator(bool reference)
{
    std::unique_ptr<Evaluator> &made = m_evaluators[reference ? 1 : 0];
    if (!made) {
        engine::EngineConfig config;
        config.backend = reference ? engine::BackendKind::Reference : engine::BackendKind::Auto;
        made = engine::openEvaluator(shared_data::demoModel().toStdString(), config, {});
    }
    return *made;
}

void EvaluateGoldensTest::wholeRow()
{
    const std::vector<float> wanted = readNpy<float>(golden("logits_plain_capital.npy"));
    QCOMPARE(wanted.size(), std::size_t{49152});
    for (const QJsonObject &line : m_lines) {
        if (line[QStringLiteral("id")] != QStringLiteral("plain_capital"))
            continue;
        const std::vector<float> logits = logitsOf(evaluator(true), idsOf(line[QStringLiteral("prompt_ids")]));
        const auto difference = tiny_model::compare(std::span(logits).last(wanted.size()), wanted);
        qInfo("whole row: max %g, mean %g", difference.maxAbs, difference.meanAbs);
        QVERIFY2(difference.maxAbs <= 1e-3, qPrintable(QString::number(difference.maxAbs)));
        return;
    }
    QFAIL("the goldens have no plain_capital");
}

void EvaluateGoldensTest::sequences_data()
{
    QTest::addColumn<int>("index");
    QTest::addColumn<bool>("reference");
    for (int i = 0; i < m_lines.size(); ++i) {
        const QString id = m_lines[i][QStringLiteral("id")].toString();
        for (const bool reference : {true, false}) {
            const bool quick = id == QStringLiteral("plain_capital") || id == QStringLiteral("chinese")
                || (!reference && id == QStringLiteral("long_1500"));
            if (quick || shared_data::fullTier() || !reference)
                QTest::newRow(qPrintable(id + (reference ? QStringLiteral(" reference") : QStringLiteral(" cpu"))))
                    << i << reference;
        }
    }
}

/// Prompt and golden continuation in one pass: top ten at nine positions, sums at one, tokens at all 64.
void EvaluateGoldensTest::sequences()
{
    QFETCH(int, index);
    QFETCH(bool, reference);
    const QJsonObject &line = m_lines[index];
    const std::vector<int> prompt = idsOf(line[QStringLiteral("prompt_ids")]);
    std::vector<int> ids = prompt;
    const std::vector<int> greedy = idsOf(line[QStringLiteral("greedy_ids")]);
    ids.insert(ids.end(), greedy.begin(), greedy.end() - 1);
    const auto vocab = static_cast<std::size_t>(evaluator(reference).vocabSize());
    const std::vector<float> all = logitsOf(evaluator(reference), ids);
    const std::span<const float> logits = std::span(all).subspan((prompt.size() - 1) * vocab);
    compareTop10(line, logits, vocab, reference ? 1e-3 : 1.5);
    compareTokens(line, logits, vocab, reference ? 0.005 : 0.35);
    if (!reference)
        return;
    double sum = 0;
    double squares = 0;
    for (const float value : logits.first(vocab)) {
        sum += static_cast<double>(value);
        squares += static_cast<double>(value) * static_cast<double>(value);
    }
    QVERIFY(std::abs(sum - line[QStringLiteral("logits_sum")].toDouble()) < 49152 * 1e-4);
    const double wantedSquares = line[QStringLiteral("logits_sumsq")].toDouble();
    QVERIFY(std::abs(squares - wantedSquares) < wantedSquares * 1e-4);
}

void EvaluateGoldensTest::compareTop10(const QJsonObject &line, std::span<const float> logits, std::size_t vocab,
                                       double limit)
{
    double most = 0;
    double total = 0;
    int count = 0;
    const QJsonArray positions = line[QStringLiteral("top10")].toArray();
    QCOMPARE(positions.size(), 9);
    for (int position = 0; position < positions.size(); ++position) {
        for (const QJsonValue &entry : positions[position].toArray()) {
            const auto id = static_cast<std::size_t>(entry.toArray()[0].toInt());
            const double found = static_cast<double>(logits[static_cast<std::size_t>(position) * vocab + id]);
            const double difference = std::abs(found - entry.toArray()[1].toDouble());
            most = std::max(most, difference);
            total += difference;
            ++count;
        }
    }
    qInfo("top ten: max %g, mean %g", most, total / count);
    QVERIFY2(most <= limit, qPrintable(QString::number(most)));
    QVERIFY2(total / count <= 0.3, qPrintable(QString::number(total / count)));
}

void EvaluateGoldensTest::compareTokens(const QJsonObject &line, std::span<const float> logits, std::size_t vocab,
                                        double margin)
{
    const std::vector<int> greedy = idsOf(line[QStringLiteral("greedy_ids")]);
    const QJsonArray margins = line[QStringLiteral("margins")].toArray();
    int compared = 0;
    for (std::size_t step = 0; step < greedy.size(); ++step) {
        if (margins[static_cast<int>(step)].toDouble() < margin)
            continue;
        QCOMPARE(static_cast<int>(argmax(logits.subspan(step * vocab, vocab))), greedy[step]);
        ++compared;
    }
    QVERIFY(compared > 30);
}

void EvaluateGoldensTest::defaultBackendAgainstReference_data()
{
    QTest::addColumn<int>("index");
    for (int i = 0; i < m_lines.size(); ++i) {
        const QString id = m_lines[i][QStringLiteral("id")].toString();
        if (shared_data::fullTier() || id == QStringLiteral("plain_story"))
            QTest::newRow(qPrintable(id)) << i;
    }
}

/// Whole rows at every position; the reference backend is within 1e-3 of transformers.
void EvaluateGoldensTest::defaultBackendAgainstReference()
{
    QFETCH(int, index);
    std::vector<int> ids = idsOf(m_lines[index][QStringLiteral("prompt_ids")]);
    const std::vector<int> greedy = idsOf(m_lines[index][QStringLiteral("greedy_ids")]);
    ids.insert(ids.end(), greedy.begin(), greedy.end());
    const std::vector<float> wanted = logitsOf(evaluator(true), ids);
    const std::vector<float> found = logitsOf(evaluator(false), ids);
    const auto difference = tiny_model::compare(found, wanted);
    const QString text =
        QStringLiteral("max %1, mean %2, nmse %3").arg(difference.maxAbs).arg(difference.meanAbs).arg(difference.nmse);
    qInfo("%s", qPrintable(text));
    QVERIFY2(difference.maxAbs <= 1.5 && difference.meanAbs <= 0.3 && difference.nmse <= 2e-3, qPrintable(text));
}

void EvaluateGoldensTest::perplexityOfTheText_data()
{
    QTest::addColumn<bool>("reference");
    QTest::addColumn<double>("limit");
    QTest::newRow("reference") << true << 0.001;
    QTest::newRow("cpu") << false << 0.007;
}

/// On the ids of the goldens: from the first digit after two line ends on, transformers splits the text otherwise than
/// the model's own tokenizer. The quick tier takes the beginning: of the reference backend a quarter of a chunk, of the
/// other four of the twelve.
void EvaluateGoldensTest::perplexityOfTheText()
{
    QFETCH(bool, reference);
    QFETCH(double, limit);
    const std::vector<float> logprobs = readNpy<float>(golden("ppl_logprobs.npy"));
    QCOMPARE(logprobs.size(), std::size_t{12 * 511});
    const bool full = shared_data::fullTier();
    const std::size_t chunks = full ? 12 : reference ? 1 : 4;
    const std::size_t context = full || !reference ? 512 : 128;
    GivenIds model(evaluator(reference), readNpy<int>(golden("ppl_ids.npy")));
    model.ids.resize(chunks * context);
    const std::vector<int> encoded = model.inner.encode(shared_data::read(golden("ppl_text.txt")).toStdString());
    QVERIFY(encoded.size() > 6144 && std::equal(encoded.begin(), encoded.begin() + 512, model.ids.begin()));

    QElapsedTimer timer;
    timer.start();
    engine::PerplexityOptions options;
    options.context = static_cast<int>(context);
    const engine::PerplexityResult result = engine::perplexity(model, {}, options, {});
    const double seconds = static_cast<double>(timer.elapsed()) / 1e3;
    QCOMPARE(result.tokens, chunks * (context - 1));
    double sum = 0;
    for (std::size_t i = 0; i < result.tokens; ++i)
        sum -= static_cast<double>(logprobs[i]);
    const double wanted = std::exp(sum / static_cast<double>(result.tokens));
    qInfo("perplexity %.4f, wanted %.4f, %.1f tokens/s", result.perplexity, wanted,
          static_cast<double>(model.ids.size()) / seconds);
    QVERIFY(std::abs(result.perplexity / wanted - 1.0) < limit);
    if (chunks == 12)
        QVERIFY(std::abs(wanted - 13.603932721816127) < 1e-4);
}

QTEST_GUILESS_MAIN(EvaluateGoldensTest)
#include "tst_evaluate_goldens.moc"
