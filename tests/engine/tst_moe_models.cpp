// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/model_files.h"
#include "engine/models/model_registry.h"
#include "tests/support/shared_data.h"
#include "tests/support/tiny_model.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QtTest>

#include <algorithm>
#include <cstring>

using tiny_model::allLogits;

namespace {

constexpr int blockTokens = 16;

/// What transformers computed in float32.
struct Golden {
    std::vector<std::vector<int>> prompts;
    std::vector<float> logits; ///< [prompts, vocab], of the last position
    QJsonObject json;

    [[nodiscard]] std::size_t vocab() const { return logits.size() / prompts.size(); }
};

std::vector<int> idsOf(const QJsonValue &value)
{
    std::vector<int> ids;
    for (const QJsonValue &id : value.toArray())
        ids.push_back(id.toInt());
    return ids;
}

Golden readGolden(const QString &folder)
{
    Golden golden;
    golden.json = QJsonDocument::fromJson(shared_data::read(folder + QStringLiteral("/golden.json"))).object();
    for (const QJsonValue &prompt : golden.json[QStringLiteral("prompts")].toArray())
        golden.prompts.push_back(idsOf(prompt));
    const QByteArray bytes = shared_data::read(folder + QStringLiteral("/logits.f32"));
    golden.logits.resize(static_cast<std::size_t>(bytes.size()) / sizeof(float));
    std::memcpy(golden.logits.data(), bytes.constData(), golden.logits.size() * sizeof(float));
    return golden;
}

/// One form of a model: a GGUF file or a folder of Hugging Face, where the golden results lie in any case.
struct Form {
    QString folder;
    QString file; ///< empty: the folder itself
    bool quantized = false;
};

struct Choices {
    int perToken = 0;
    std::vector<std::int32_t> ids;
    std::vector<float> weights;
};

std::unique_ptr<engine::ModelRunner> runnerOf(const engine::Checkpoint &checkpoint, bool reference)
{
    auto runner = tiny_model::makeRunner(checkpoint, {.reference = reference, .threads = 2});
    runner->resizeKv({8, blockTokens});
    return runner;
}

} // namespace

/// Mixtures of experts and latent attention against transformers.
class MoeModelsTest : public QObject {
    Q_OBJECT

private slots:
    void logits_data() { forms(); }
    void logits();
    void routerChoices_data() { forms(); }
    void routerChoices();
    void greedyTokens_data() { forms(); }
    void greedyTokens();
    void chunksDoNotMatter_data() { forms(); }
    void chunksDoNotMatter();
    void cacheIsCompressed();

private:
    static void forms();
    std::unique_ptr<engine::Checkpoint> open();

    Golden m_golden;
    bool m_quantized = false;
};

void MoeModelsTest::forms()
{
    QTest::addColumn<QString>("folder");
    QTest::addColumn<QString>("file");
    QTest::addColumn<bool>("quantized");
    const auto row = [](const QString &name, const QString &folder, const QString &file, bool quantized = false) {
        QTest::newRow(qPrintable(name)) << folder << file << quantized;
    };
    const QString kept = shared_data::data(QStringLiteral("tiny-deepseek3"));
    row(QStringLiteral("kept deepseek3"), kept, kept + QStringLiteral("/deepseek3-f16.gguf"));
    for (const char *model : {"mixtral", "qwen2moe", "qwen3moe", "qwen3moe-nonorm", "qwen3moe-dense0", "olmoe",
                              "granitemoe", "gpt-oss", "gpt-oss-trunc", "gpt-oss-trunc-mxfp4", "deepseek2-lite",
                              "deepseek2-lite27", "deepseek2-grouped", "deepseek3"}) {
        const QString name = QString::fromLatin1(model);
        const QString folder = shared_data::path(QStringLiteral("tiny/models/%1").arg(name));
        const bool quantized = name.endsWith(QStringLiteral("mxfp4"));
        const QString gguf = folder + QStringLiteral("/%1-f16.gguf").arg(name);
        if (folder.isEmpty() || QFile::exists(gguf))
            row(name + QStringLiteral(" gguf"), folder, gguf, quantized);
        if (QDir(folder).entryList({QStringLiteral("*.safetensors")}).size() > 0)
            row(name + QStringLiteral(" folder"), folder, folder, quantized);
    }
}

/// Reads the golden results of a row; null when they are absent.
std::unique_ptr<engine::Checkpoint> MoeModelsTest::open()
{
    QFETCH(QString, folder);
    QFETCH(QString, file);
    QFETCH(bool, quantized);
    if (folder.isEmpty())
        return nullptr;
    m_golden = readGolden(folder);
    m_quantized = quantized;
    return engine::openModelFiles(file.toStdString());
}

#define OPEN(checkpoint)                                                                                               \
    const auto checkpoint = open();                                                                                    \
    if (!checkpoint)                                                                                                   \
    QSKIP(qPrintable(QStringLiteral("reference data is absent: ") + QLatin1String(QTest::currentDataTag())))

void MoeModelsTest::logits()
{
    OPEN(checkpoint);
    const std::size_t vocab = m_golden.vocab();
    for (const bool reference : {true, false}) {
        const auto runner = runnerOf(*checkpoint, reference);
        for (std::size_t i = 0; i < m_golden.prompts.size(); ++i) {
            const std::vector<float> found = allLogits(*runner, m_golden.prompts[i], 0, blockTokens);
            const auto difference =
                tiny_model::compare(std::span(found).last(vocab), std::span(m_golden.logits).subspan(i * vocab, vocab));
            qInfo("%s prompt %d: largest difference %.3g, NMSE %.3g", reference ? "reference" : "cpu",
                  static_cast<int>(i), difference.maxAbs, difference.nmse);
            if (reference)
                QVERIFY(difference.maxAbs <= 1e-3);
            else
                QVERIFY(difference.nmse <= (m_quantized ? 2e-3 : 5e-4));
        }
    }
}

void MoeModelsTest::routerChoices()
{
    OPEN(checkpoint);
    const QJsonObject router = m_golden.json[QStringLiteral("router")].toObject();
    const auto prompt = static_cast<std::size_t>(router[QStringLiteral("prompt")].toInt());
    const QJsonArray layers = router[QStringLiteral("layers")].toArray();
    QVERIFY(!layers.isEmpty());
    for (const bool reference : {true, false}) {
        if (!reference && m_quantized)
            continue; // activations of 8 bits may turn a close choice
        const auto runner = runnerOf(*checkpoint, reference);
        std::map<int, Choices> found;
        runner->setRouterCallback([&](const engine::RouterChoice &choice) {
            found[choice.layer] = {choice.perToken,
                                   {choice.ids.begin(), choice.ids.end()},
                                   {choice.weights.begin(), choice.weights.end()}};
        });
        (void)allLogits(*runner, m_golden.prompts[prompt], 0, blockTokens);
        QCOMPARE(static_cast<qsizetype>(found.size()), layers.size());
        for (const QJsonValue &value : layers) {
            const QJsonObject layer = value.toObject();
            const Choices &choices = found.at(layer[QStringLiteral("layer")].toInt());
            const QJsonArray experts = layer[QStringLiteral("experts")].toArray();
            const QJsonArray weights = layer[QStringLiteral("weights")].toArray();
            QCOMPARE(static_cast<qsizetype>(choices.ids.size()), experts.size() * choices.perToken);
            for (qsizetype i = 0; i < static_cast<qsizetype>(choices.ids.size()); ++i) {
                const qsizetype token = i / choices.perToken;
                const qsizetype rank = i % choices.perToken;
                QCOMPARE(choices.ids[static_cast<std::size_t>(i)], experts[token].toArray()[rank].toInt());
                const double wanted = weights[token].toArray()[rank].toDouble();
                QVERIFY(std::abs(static_cast<double>(choices.weights[static_cast<std::size_t>(i)]) - wanted)
                        <= (reference ? 1e-4 : 2e-2));
            }
        }
    }
}

void MoeModelsTest::greedyTokens()
{
    OPEN(checkpoint);
    const auto runner = runnerOf(*checkpoint, true);
    int compared = 0;
    for (std::size_t i = 0; i < m_golden.prompts.size(); ++i) {
        const QJsonObject greedy = m_golden.json[QStringLiteral("greedy")].toArray()[static_cast<int>(i)].toObject();
        const std::vector<int> tokens = idsOf(greedy[QStringLiteral("tokens")]);
        std::vector<int> ids = m_golden.prompts[i];
        ids.insert(ids.end(), tokens.begin(), tokens.end());
        const std::vector<float> logits = allLogits(*runner, ids, 0, blockTokens);
        for (std::size_t step = 0; step < tokens.size(); ++step) {
            if (greedy[QStringLiteral("margin")].toArray()[static_cast<int>(step)].toDouble() < 0.002)
                continue;
            const std::size_t row = m_golden.prompts[i].size() - 1 + step;
            const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(row * m_golden.vocab());
            QCOMPARE(static_cast<int>(std::max_element(begin, begin + static_cast<std::ptrdiff_t>(m_golden.vocab()))
                                      - begin),
                     tokens[step]);
            ++compared;
        }
    }
    QVERIFY(compared >= 60);
}

void MoeModelsTest::chunksDoNotMatter()
{
    OPEN(checkpoint);
    const auto runner = runnerOf(*checkpoint, false);
    const std::vector<int> &ids = m_golden.prompts.back();
    const std::vector<float> whole = allLogits(*runner, ids, 0, blockTokens);
    for (const int chunk : {1, 7}) {
        const std::vector<float> parts = allLogits(*runner, ids, chunk, blockTokens, {7, 2, 5, 0, 4});
        QVERIFY(parts.size() == whole.size()
                && std::memcmp(parts.data(), whole.data(), whole.size() * sizeof(float)) == 0);
    }
}

void MoeModelsTest::cacheIsCompressed()
{
    const QString file = shared_data::data(QStringLiteral("tiny-deepseek3/deepseek3-f16.gguf"));
    const auto checkpoint = engine::openModelFiles(file.toStdString());
    const engine::ModelConfig config = engine::familyOf(*checkpoint).readConfig(*checkpoint);
    // One latent vector of 32 and one rotated part of 16 for all four heads, in each of three layers.
    QCOMPARE(config.kvShape(16, engine::KvTypes{}).bytesPerBlock(), std::size_t{3 * 16 * (32 + 16) * 2});
}

QTEST_GUILESS_MAIN(MoeModelsTest)
#include "tst_moe_models.moc"
