// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/evaluate.h"
#include "engine/models/model.h" // before Qt, whose keywords name one of its members
#include "tests/support/shared_data.h"

#include <QFileInfo>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QStandardPaths>
#include <QtTest>

#include <algorithm>
#include <cmath>
#include <memory>

namespace {

QString modelFile()
{
    QString file = qEnvironmentVariable("LATHE_GEMMA_MODEL");
    if (file.isEmpty())
        file = QStandardPaths::writableLocation(QStandardPaths::GenericDataLocation)
            + QStringLiteral("/lathe/models/gemma-3-270m-q4_k_m.gguf");
    return QFileInfo(file).isFile() ? file : QString();
}

std::vector<int> idsOf(const QJsonValue &value)
{
    std::vector<int> ids;
    for (const QJsonValue &id : value.toArray())
        ids.push_back(id.toInt());
    return ids;
}

} // namespace

/// A model with windows, two rotary bases, norms on both sides and a vocabulary of 262,144, against transformers in
/// float32. In the quick tier the short prompts, in the full tier all.
class GemmaGoldensTest : public QObject {
    Q_OBJECT
private slots:
    void initTestCase();
    void sequences_data();
    void sequences();

private:
    engine::Evaluator &evaluator(bool reference);

    QList<QJsonObject> m_lines;
    std::unique_ptr<engine::Evaluator> m_evaluators[2];
};

void GemmaGoldensTest::initTestCase()
{
    if (modelFile().isEmpty())
        QSKIP("the model gemma-3-270m-q4_k_m.gguf is absent (LATHE_GEMMA_MODEL)");
    const QString file = shared_data::path(QStringLiteral("goldens/gemma3/lm_transformers.jsonl.xz"));
    if (file.isEmpty())
        QSKIP("reference data is absent: goldens/gemma3/lm_transformers.jsonl.xz");
    for (const QByteArray &line : shared_data::read(file).split('\n')) {
        if (!line.isEmpty())
            m_lines.append(QJsonDocument::fromJson(line).object());
    }
    QVERIFY(!m_lines.isEmpty());
}

engine::Evaluator &GemmaGoldensTest::evaluator(bool reference)
{
    std::unique_ptr<engine::Evaluator> &made = m_evaluators[reference ? 1 : 0];
    if (!made) {
        engine::EngineConfig config;
        config.backend = reference ? engine::BackendKind::Reference : engine::BackendKind::Auto;
        made = engine::openEvaluator(modelFile().toStdString(), config, {});
    }
    return *made;
}

void GemmaGoldensTest::sequences_data()
{
    QTest::addColumn<int>("index");
    QTest::addColumn<bool>("reference");
    for (int i = 0; i < m_lines.size(); ++i) {
        const auto length = m_lines[i][QStringLiteral("prompt_ids")].toArray().size();
        for (const bool reference : {true, false}) {
            if (shared_data::fullTier() || length < (reference ? 10 : 100))
                QTest::addRow("%s %s", qPrintable(m_lines[i][QStringLiteral("id")].toString()),
                              reference ? "reference" : "cpu")
                    << i << reference;
        }
    }
}

/// Prompt and golden continuation in one pass: the ten best at the positions that the goldens list, and the tokens.
void GemmaGoldensTest::sequences()
{
    QFETCH(int, index);
    QFETCH(bool, reference);
    const QJsonObject &line = m_lines[index];
    const std::vector<int> prompt = idsOf(line[QStringLiteral("prompt_ids")]);
    const std::vector<int> greedy = idsOf(line[QStringLiteral("greedy_ids")]);
    const QJsonArray margins = line[QStringLiteral("margins")].toArray();
    const QJsonArray best = line[QStringLiteral("top10")].toArray();
    std::vector<int> ids = prompt;
    ids.insert(ids.end(), greedy.begin(), greedy.end() - 1);
    std::size_t position = 0;
    double most = 0;
    int wrong = 0;
    int compared = 0;
    const auto row = [&](std::span<const float> logits) {
        if (++position < prompt.size())
            return;
        const auto step = static_cast<int>(position - prompt.size());
        for (const QJsonValue &entry : best[step].toArray()) {
            const auto id = static_cast<std::size_t>(entry.toArray()[0].toInt());
            most = std::max(most, std::abs(static_cast<double>(logits[id]) - entry.toArray()[1].toDouble()));
            ++compared;
        }
        const auto top = static_cast<int>(std::max_element(logits.begin(), logits.end()) - logits.begin());
        if (margins[step].toDouble() >= (reference ? 0.005 : 0.35))
            wrong += top == greedy[static_cast<std::size_t>(step)] ? 0 : 1;
    };
    evaluator(reference).logits(ids, true, row, {});
    qInfo("ten best: max %g", most);
    QVERIFY(compared >= 10);
    QCOMPARE(wrong, 0);
    QVERIFY2(most <= (reference ? 1e-3 : 1.5), qPrintable(QString::number(most)));
}

QTEST_GUILESS_MAIN(GemmaGoldensTest)
#include "tst_gemma_goldens.moc"
