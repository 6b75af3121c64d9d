// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/model_registry.h"
#include "tests/support/shared_data.h"
#include "tests/support/tiny_model.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QtTest>

#include <cmath>
#include <cstring>

using tiny_model::allLogits;
using tiny_model::Difference;

namespace {

/// Prompts with the logits of their last position, by transformers in float32.
struct Golden {
    std::vector<std::vector<int>> prompts;
    std::vector<float> logits; ///< [prompts, vocab]
    QJsonObject json;
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

std::span<const float> lastRow(const std::vector<float> &logits, std::size_t vocab)
{
    return std::span(logits).last(vocab);
}

/// Root mean square of x times the weight; the sums of this second opinion are in double throughout.
std::vector<double> normed(const std::vector<double> &x, const std::vector<float> &weight)
{
    double squares = 0;
    for (const double value : x)
        squares += value * value;
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + 1e-5);
    std::vector<double> out(x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
        out[i] = x[i] * scale * static_cast<double>(weight[i]);
    return out;
}

std::vector<double> times(const std::vector<float> &matrix, const std::vector<double> &x,
                          const std::vector<float> &bias)
{
    std::vector<double> out(matrix.size() / x.size());
    for (std::size_t row = 0; row < out.size(); ++row) {
        out[row] = bias.empty() ? 0.0 : static_cast<double>(bias[row]);
        for (std::size_t i = 0; i < x.size(); ++i)
            out[row] += static_cast<double>(matrix[row * x.size() + i]) * x[i];
    }
    return out;
}

void rotate(std::vector<double> &heads, int position, int headDim, int rotaryDim)
{
    for (std::size_t head = 0; head < heads.size(); head += static_cast<std::size_t>(headDim)) {
        for (int i = 0; i < rotaryDim / 2; ++i) {
            const double angle = position * std::pow(10000.0, -2.0 * i / rotaryDim);
            double &a = heads[head + static_cast<std::size_t>(2 * i)];
            double &b = heads[head + static_cast<std::size_t>(2 * i) + 1];
            const double turned = a * std::cos(angle) - b * std::sin(angle);
            b = a * std::sin(angle) + b * std::cos(angle);
            a = turned;
        }
    }
}

/// Keys and values of all positions so far of one layer.
struct Memory {
    std::vector<std::vector<double>> keys;
    std::vector<std::vector<double>> values;
};

std::vector<double> attend(const std::vector<double> &queries, const Memory &memory, const tiny_model::Sizes &sizes)
{
    const auto dim = static_cast<std::size_t>(sizes.headDim);
    std::vector<double> out(queries.size(), 0.0);
    for (std::size_t head = 0; head < static_cast<std::size_t>(sizes.heads); ++head) {
        const std::size_t group = head / static_cast<std::size_t>(sizes.heads / sizes.kvHeads);
        std::vector<double> weights;
        double sum = 0;
        for (const std::vector<double> &keys : memory.keys) {
            double dot = 0;
            for (std::size_t i = 0; i < dim; ++i)
                dot += queries[head * dim + i] * keys[group * dim + i];
            weights.push_back(std::exp(dot / std::sqrt(static_cast<double>(dim))));
            sum += weights.back();
        }
        for (std::size_t token = 0; token < weights.size(); ++token) {
            for (std::size_t i = 0; i < dim; ++i)
                out[head * dim + i] += weights[token] / sum * memory.values[token][group * dim + i];
        }
    }
    return out;
}

void addTo(std::vector<double> &x, const std::vector<double> &part)
{
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] += part[i];
}

/// The whole network once more, straight from its definition and without the code under test.
std::vector<float> independentLogits(const tiny_model::MemoryCheckpoint &model, const tiny_model::Sizes &sizes,
                                     const std::vector<int> &ids, int rotaryDim)
{
    std::vector<Memory> memory(static_cast<std::size_t>(sizes.layers));
    std::vector<float> all;
    for (std::size_t position = 0; position < ids.size(); ++position) {
        const std::vector<float> &table = model.values("token_embd.weight");
        const auto begin = table.begin() + ids[position] * sizes.hidden;
        std::vector<double> x(begin, begin + sizes.hidden);
        for (int i = 0; i < sizes.layers; ++i) {
            const auto of = [&](const char *part, const char *suffix = ".weight") -> std::vector<float> {
                const std::string name = "blk." + std::to_string(i) + "." + part + suffix;
                return model.find(name) ? model.values(name) : std::vector<float>{};
            };
            const std::vector<double> n = normed(x, of("attn_norm"));
            std::vector<double> queries = times(of("attn_q"), n, of("attn_q", ".bias"));
            std::vector<double> keys = times(of("attn_k"), n, of("attn_k", ".bias"));
            rotate(queries, static_cast<int>(position), sizes.headDim, rotaryDim);
            rotate(keys, static_cast<int>(position), sizes.headDim, rotaryDim);
            Memory &layer = memory[static_cast<std::size_t>(i)];
            layer.keys.push_back(keys);
            layer.values.push_back(times(of("attn_v"), n, of("attn_v", ".bias")));
            addTo(x, times(of("attn_output"), attend(queries, layer, sizes), of("attn_output", ".bias")));
            const std::vector<double> m = normed(x, of("ffn_norm"));
            std::vector<double> inner = times(of("ffn_gate"), m, {});
            const std::vector<double> up = times(of("ffn_up"), m, {});
            for (std::size_t j = 0; j < inner.size(); ++j)
                inner[j] = inner[j] / (1.0 + std::exp(-inner[j])) * up[j];
            addTo(x, times(of("ffn_down"), inner, {}));
        }
        const bool tied = model.find("output.weight") == nullptr;
        for (const double logit : times(model.values(tied ? "token_embd.weight" : "output.weight"),
                                        normed(x, model.values("output_norm.weight")), {}))
            all.push_back(static_cast<float>(logit));
    }
    return all;
}

} // namespace

class LlamaModelTest : public QObject {
    Q_OBJECT
private slots:
    void equalsItsDefinition_data();
    void equalsItsDefinition();
    void goldens_data();
    void goldens();
    void greedyTokens_data();
    void greedyTokens();
    void loadingReportsProgressAndStops();
    void badFactorsAreRefused();
};

void LlamaModelTest::equalsItsDefinition_data()
{
    QTest::addColumn<int>("heads");
    QTest::addColumn<int>("kvHeads");
    QTest::addColumn<bool>("biases");
    QTest::addColumn<bool>("tied");
    QTest::addColumn<int>("rotaryDim");
    QTest::newRow("grouped, tied") << 4 << 2 << false << true << 8;
    QTest::newRow("one kv head, biases") << 6 << 1 << true << true << 8;
    QTest::newRow("all heads, own output") << 3 << 3 << false << false << 8;
    QTest::newRow("partial rotation") << 4 << 4 << true << false << 4;
}

void LlamaModelTest::equalsItsDefinition()
{
    QFETCH(int, heads);
    QFETCH(int, kvHeads);
    QFETCH(bool, biases);
    QFETCH(bool, tied);
    QFETCH(int, rotaryDim);
    const tiny_model::Sizes sizes{.heads = heads, .kvHeads = kvHeads, .biases = biases, .tied = tied};
    tiny_model::MemoryCheckpoint checkpoint = tiny_model::makeLlama(sizes, 7);
    checkpoint.set("llama.rope.dimension_count", std::int64_t{rotaryDim});
    std::vector<int> ids;
    for (int i = 0; i < 37; ++i)
        ids.push_back((i * 13 + 5) % sizes.vocab);
    const std::vector<float> wanted = independentLogits(checkpoint, sizes, ids, rotaryDim);
    auto runner = tiny_model::makeRunner(checkpoint, {.reference = true, .threads = 1});
    runner->resizeKv({8, 8});
    const Difference difference = tiny_model::compare(allLogits(*runner, ids, 10, 8), wanted);
    QVERIFY2(difference.maxAbs < 2e-5, qPrintable(QString::number(difference.maxAbs)));
}

namespace {

/// Model files with goldens: file, its folder, and the limit of the default backend.
struct GoldenModel {
    QString name;
    QString file; ///< empty when absent
    QString folder;
    double nmse;
};

std::vector<GoldenModel> goldenModels()
{
    const QString own = shared_data::data(QStringLiteral("tiny-llama"));
    std::vector<GoldenModel> models{{QStringLiteral("own"), own + QStringLiteral("/llama-f16.gguf"), own, 5e-4}};
    const auto add = [&models](const QString &folder, const QString &name, double nmse) {
        const QString relative = folder + QLatin1Char('/') + name;
        models.push_back({relative, shared_data::path(relative), shared_data::path(folder), nmse});
    };
    add(QStringLiteral("tiny/models/llama"), QStringLiteral("llama-f32.gguf"), 5e-4);
    for (const QString name : {"llama256", "llama-tied-rope3", "llama-linear", "llama-yarn"})
        add(QStringLiteral("tiny/models/") + name, name + QStringLiteral("-f16.gguf"), 5e-4);
    for (const QString name :
         {"llama-q4_0", "llama-q4_1", "llama-q5_0", "llama-q5_1", "llama-q8_0", "llama-iq4_nl", "llama256-q2_k",
          "llama256-q3_k", "llama256-q4_k", "llama256-q5_k", "llama256-q6_k", "llama256-iq4_xs"})
        add(QStringLiteral("tiny/gguf-quant/") + name, name + QStringLiteral(".gguf"), 2e-3);
    return models;
}

} // namespace

void LlamaModelTest::goldens_data()
{
    QTest::addColumn<QString>("file");
    QTest::addColumn<QString>("folder");
    QTest::addColumn<bool>("reference");
    QTest::addColumn<double>("nmse");
    for (const GoldenModel &model : goldenModels()) {
        for (const bool reference : {true, false})
            QTest::newRow(qPrintable(model.name + (reference ? QStringLiteral(" reference") : QStringLiteral(" cpu"))))
                << model.file << model.folder << reference << model.nmse;
    }
}

/// Last positions of the prompts: float accuracy from the reference backend, a small share of the signal otherwise.
void LlamaModelTest::goldens()
{
    QFETCH(QString, file);
    QFETCH(QString, folder);
    QFETCH(bool, reference);
    QFETCH(double, nmse);
    if (file.isEmpty())
        QSKIP(qPrintable(QStringLiteral("reference data is absent: ") + QLatin1String(QTest::currentDataTag())));
    const Golden golden = readGolden(folder);
    QVERIFY(!golden.prompts.empty());
    const std::size_t vocab = golden.logits.size() / golden.prompts.size();
    const auto checkpoint = engine::openCheckpoint(file.toStdString());
    auto runner = tiny_model::makeRunner(*checkpoint, {.reference = reference, .threads = 2},
                                         reference ? kernels::DType::F32 : kernels::DType::F16);
    runner->resizeKv({8, 16});
    std::vector<float> found;
    for (const std::vector<int> &prompt : golden.prompts) {
        const std::vector<float> logits = allLogits(*runner, prompt, 0, 16);
        const auto last = lastRow(logits, vocab);
        found.insert(found.end(), last.begin(), last.end());
    }
    const Difference difference = tiny_model::compare(found, golden.logits);
    const QString text =
        QStringLiteral("max %1, mean %2, nmse %3").arg(difference.maxAbs).arg(difference.meanAbs).arg(difference.nmse);
    qInfo("%s", qPrintable(text));
    QVERIFY2(reference ? difference.maxAbs <= 1e-3 : difference.nmse <= nmse, qPrintable(text));
}

void LlamaModelTest::greedyTokens_data()
{
    QTest::addColumn<QString>("file");
    QTest::addColumn<QString>("folder");
    for (const GoldenModel &model : goldenModels())
        QTest::newRow(qPrintable(model.name)) << model.file << model.folder;
}

/// Every token of the golden continuations, given the golden ones before it, on the reference backend.
void LlamaModelTest::greedyTokens()
{
    QFETCH(QString, file);
    QFETCH(QString, folder);
    if (file.isEmpty())
        QSKIP(qPrintable(QStringLiteral("reference data is absent: ") + QLatin1String(QTest::currentDataTag())));
    const Golden golden = readGolden(folder);
    const std::size_t vocab = golden.logits.size() / golden.prompts.size();
    const auto checkpoint = engine::openCheckpoint(file.toStdString());
    auto runner = tiny_model::makeRunner(*checkpoint, {.reference = true, .threads = 2});
    runner->resizeKv({8, 16});
    int compared = 0;
    for (std::size_t i = 0; i < golden.prompts.size(); ++i) {
        const QJsonObject greedy = golden.json[QStringLiteral("greedy")].toArray()[static_cast<int>(i)].toObject();
        const std::vector<int> tokens = idsOf(greedy[QStringLiteral("tokens")]);
        std::vector<int> ids = golden.prompts[i];
        ids.insert(ids.end(), tokens.begin(), tokens.end());
        const std::vector<float> logits = allLogits(*runner, ids, 0, 16);
        for (std::size_t step = 0; step < tokens.size(); ++step) {
            if (greedy[QStringLiteral("margin")].toArray()[static_cast<int>(step)].toDouble() < 0.002)
                continue;
            const std::size_t row = golden.prompts[i].size() - 1 + step;
            const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(row * vocab);
            QCOMPARE(static_cast<int>(std::max_element(begin, begin + static_cast<std::ptrdiff_t>(vocab)) - begin),
                     tokens[step]);
            ++compared;
        }
    }
    QVERIFY(compared >= 60);
}

void LlamaModelTest::loadingReportsProgressAndStops()
{
    const tiny_model::MemoryCheckpoint checkpoint = tiny_model::makeLlama({});
    const engine::ModelFamily &family = engine::familyOf(checkpoint);
    auto ops = kernels::makeOps({.reference = true, .threads = 1});
    std::vector<double> fractions;
    engine::WeightLoader whole(checkpoint, *ops, [&](double fraction) { fractions.push_back(fraction); }, {});
    (void)family.load(family.readConfig(checkpoint), whole);
    QVERIFY(fractions.size() > 10 && std::is_sorted(fractions.begin(), fractions.end()));
    QVERIFY(fractions.back() > 0.99 && fractions.back() <= 1.0);

    std::stop_source stop;
    int calls = 0;
    engine::WeightLoader stopped(
        checkpoint, *ops,
        [&](double) {
            if (++calls == 3)
                stop.request_stop();
        },
        stop.get_token());
    try {
        (void)family.load(family.readConfig(checkpoint), stopped);
        QFAIL("loading went on");
    } catch (const engine::Error &error) {
        QCOMPARE(error.code(), engine::ErrorCode::Cancelled);
        QCOMPARE(calls, 3);
    }
}

void LlamaModelTest::badFactorsAreRefused()
{
    for (const float bad : {0.0F, -1.0F, NAN, INFINITY}) {
        tiny_model::MemoryCheckpoint checkpoint = tiny_model::makeLlama({});
        checkpoint.setTensor("rope_freqs.weight", {4}, {1.0F, bad, 1.0F, 1.0F});
        try {
            (void)tiny_model::makeRunner(checkpoint, {.reference = true, .threads = 1});
            QFAIL("such factors were taken");
        } catch (const engine::Error &error) {
            QCOMPARE(error.code(), engine::ErrorCode::Refused);
            QVERIFY2(QByteArray(error.what()).contains("rope_freqs.weight"), error.what());
        }
    }
}

QTEST_GUILESS_MAIN(LlamaModelTest)
#include "tst_llama_model.moc"
