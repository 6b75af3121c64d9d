// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/model_files.h"
#include "engine/models/model_registry.h"
#include "tests/support/shared_data.h"
#include "tests/support/tiny_golden.h"
#include "tests/support/tiny_model.h"

#include <QDir>
#include <QJsonObject>
#include <QtTest>

using tiny_model::Difference;
using tiny_model::Golden;
using tiny_model::readGolden;

namespace {

constexpr int blockTokens = 16;

/// Folders of models: those beside the tests, then all of the reference data.
QStringList modelFolders()
{
    QStringList folders;
    for (const QString &root :
         {shared_data::data(QStringLiteral("tiny-models")), shared_data::path(QStringLiteral("tiny/models"))}) {
        const QDir dir(root);
        if (root.isEmpty())
            continue;
        for (const QString &name : dir.entryList(QDir::Dirs | QDir::NoDotAndDotDot, QDir::Name))
            folders.push_back(dir.filePath(name));
    }
    return folders;
}

/// Mixtures have goldens of their routers and tests of their own.
bool isMixture(const QString &folder)
{
    return shared_data::read(folder + QStringLiteral("/golden.json")).contains("\"router\"");
}

/// Weights of a Hugging Face folder.
bool hasSafetensors(const QString &folder)
{
    return !QDir(folder).entryList({QStringLiteral("*.safetensors")}, QDir::Files).isEmpty();
}

/// One row for a folder's GGUF file and one for the folder itself, as far as it has them.
void addModels()
{
    QTest::addColumn<QString>("folder");
    QTest::addColumn<QString>("model");
    for (const QString &folder : modelFolders()) {
        const QString name = folder.section(QLatin1Char('/'), -2);
        if (!tiny_model::ggufOf(folder).isEmpty() && !isMixture(folder))
            QTest::newRow(qPrintable(name)) << folder << tiny_model::ggufOf(folder);
        if (hasSafetensors(folder))
            QTest::newRow(qPrintable(name + QStringLiteral(" folder"))) << folder << folder;
    }
}

} // namespace

class TinyModelsTest : public QObject {
    Q_OBJECT
private slots:
    void logits_data() { addModels(); }
    void logits();
    void everyTensorIsExpected_data() { addModels(); }
    void everyTensorIsExpected();
    void greedyTokens_data() { addModels(); }
    void greedyTokens();
    void neighboursAndChunksChangeNothing_data() { addModels(); }
    void neighboursAndChunksChangeNothing();

private:
    static void compareLogits(const QString &folder, const QString &model, bool reference);
};

void TinyModelsTest::compareLogits(const QString &folder, const QString &model, bool reference)
{
    const Golden golden = readGolden(folder);
    QVERIFY(golden.prompts.size() == 3);
    // Some backends read the file's pages as they go, so it stays open.
    const auto checkpoint = engine::openModelFiles(model.toStdString());
    auto runner = tiny_model::makeRunner(*checkpoint, {.reference = reference, .threads = 2},
                                         reference ? kernels::DType::F32 : kernels::DType::F16);
    runner->resizeKv({8, blockTokens});
    std::vector<float> found;
    for (const std::vector<int> &prompt : golden.prompts) {
        const std::vector<float> logits = tiny_model::allLogits(*runner, prompt, 0, blockTokens);
        found.insert(found.end(), logits.end() - static_cast<std::ptrdiff_t>(golden.vocab()), logits.end());
    }
    const Difference difference = tiny_model::compare(found, golden.logits);
    const QString text =
        QStringLiteral("max %1, mean %2, nmse %3").arg(difference.maxAbs).arg(difference.meanAbs).arg(difference.nmse);
    qInfo("%s: %s", reference ? "reference" : "cpu", qPrintable(text));
    QVERIFY2(reference ? difference.maxAbs <= golden.limit : difference.nmse <= 5e-4, qPrintable(text));
}

void TinyModelsTest::logits()
{
    QFETCH(QString, folder);
    QFETCH(QString, model);
    compareLogits(folder, model, true);
    if (!QTest::currentTestFailed())
        compareLogits(folder, model, false);
}

/// The lists of tensors name all that the files hold, and a file that lacks one or has another shape is refused.
void TinyModelsTest::everyTensorIsExpected()
{
    QFETCH(QString, model);
    const auto checkpoint = engine::openModelFiles(model.toStdString());
    const engine::ModelFamily &family = engine::familyOf(*checkpoint);
    const engine::ModelConfig config = family.readConfig(*checkpoint);
    std::vector<engine::ExpectedTensor> expected = family.tensors(config);
    QCOMPARE(engine::unusedTensors(*checkpoint, expected), std::vector<std::string>());
    const auto any = [](kernels::DType) { return true; };
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const engine::ExpectedTensor right = expected[i];
        if (!checkpoint->find(right.name))
            continue;
        expected[i].shape.front() += 1;
        QVERIFY_THROWS_EXCEPTION(engine::Error, engine::checkTensors(*checkpoint, expected, config.layers, any));
        expected[i] = right;
        expected[i].name += "x";
        if (!right.optional)
            QVERIFY_THROWS_EXCEPTION(engine::Error, engine::checkTensors(*checkpoint, expected, config.layers, any));
        expected[i] = right;
    }
}

/// Every token of the golden continuations, given the golden ones before it; as those were made by full
/// recomputation, the sequence up to each token is of that token's own rope variant.
void TinyModelsTest::greedyTokens()
{
    QFETCH(QString, folder);
    QFETCH(QString, model);
    const Golden golden = readGolden(folder);
    const std::size_t vocab = golden.vocab();
    const auto checkpoint = engine::openModelFiles(model.toStdString());
    auto runner = tiny_model::makeRunner(*checkpoint, {.reference = true, .threads = 2});
    const engine::RopeVariants variants = runner->ropeVariants();
    runner->resizeKv({8, blockTokens});
    int compared = 0;
    for (std::size_t i = 0; i < golden.prompts.size(); ++i) {
        const QJsonObject greedy = golden.greedy[static_cast<int>(i)].toObject();
        const std::vector<int> tokens = tiny_model::idsOf(greedy[QStringLiteral("tokens")]);
        std::vector<int> ids = golden.prompts[i];
        std::vector<float> logits;
        std::size_t known = 0; // tokens that `logits` hold for
        for (std::size_t step = 0; step < tokens.size(); ++step) {
            const int length = static_cast<int>(ids.size());
            if (known < ids.size()) {
                std::vector<int> more = ids; // all that has the same variant at once
                for (std::size_t s = step;
                     s + 1 < tokens.size() && variants.of(static_cast<int>(more.size()) + 1) == variants.of(length);
                     ++s)
                    more.push_back(tokens[s]);
                logits = tiny_model::allLogits(*runner, more, 0, blockTokens);
                known = more.size();
            }
            const auto begin = logits.begin() + static_cast<std::ptrdiff_t>((ids.size() - 1) * vocab);
            if (greedy[QStringLiteral("margin")].toArray()[static_cast<int>(step)].toDouble() >= 0.005) {
                QCOMPARE(static_cast<int>(std::max_element(begin, begin + static_cast<std::ptrdiff_t>(vocab)) - begin),
                         tokens[step]);
                ++compared;
            }
            ids.push_back(tokens[step]);
        }
    }
    QVERIFY(compared >= 60);
}

/// The default backend: bit-equal logits however a prompt is cut and whoever stands beside it.
void TinyModelsTest::neighboursAndChunksChangeNothing()
{
    QFETCH(QString, folder);
    QFETCH(QString, model);
    const Golden golden = readGolden(folder);
    const auto checkpoint = engine::openModelFiles(model.toStdString());
    auto runner = tiny_model::makeRunner(*checkpoint, {.threads = 2}, kernels::DType::F16);
    runner->resizeKv({16, blockTokens});
    const std::vector<int> &longest = golden.prompts[2];
    const std::vector<float> alone = tiny_model::allLogits(*runner, longest, 0, blockTokens);
    QCOMPARE(tiny_model::allLogits(*runner, longest, 7, blockTokens), alone);
    engine::Batch batch =
        tiny_model::makeBatch({{golden.prompts[1], 0, {9, 8}}, {longest, 0, {1, 3, 5, 7, 0}}}, blockTokens);
    const engine::RopeVariants variants = runner->ropeVariants();
    for (const std::size_t length : {golden.prompts[1].size(), longest.size()})
        batch.forward.ropeVariants.push_back(variants.of(static_cast<int>(length)));
    const kernels::TensorView together = runner->run(batch);
    const float *second = together.as<float>() + golden.prompts[1].size() * golden.vocab();
    QVERIFY(std::equal(alone.begin(), alone.end(), second));
}

QTEST_GUILESS_MAIN(TinyModelsTest)
#include "tst_tiny_models.moc"
