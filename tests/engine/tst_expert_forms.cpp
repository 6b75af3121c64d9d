// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/model_registry.h"
#include "tests/support/tiny_model.h"

#include <QtTest>

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

using tiny_model::MemoryCheckpoint;

namespace {

constexpr int experts = 5;
constexpr int used = 2;
constexpr int inner = 24;
const std::vector<int> prompt{3, 17, 17, 9, 22, 31, 0, 5, 39};

using Values = std::vector<float>;

Values randomValues(std::mt19937 &random, std::int64_t count, float range)
{
    std::uniform_real_distribution<float> distribution(-range, range);
    Values values(static_cast<std::size_t>(count));
    for (float &value : values)
        value = distribution(random);
    return values;
}

/// A llama whose feed-forward parts are mixtures, in the form of today's files.
MemoryCheckpoint mixture(const tiny_model::Sizes &sizes)
{
    MemoryCheckpoint checkpoint = tiny_model::makeLlama(sizes);
    checkpoint.set("llama.expert_count", std::int64_t{experts});
    checkpoint.set("llama.expert_used_count", std::int64_t{used});
    checkpoint.set("llama.expert_feed_forward_length", std::int64_t{inner});
    std::mt19937 random(7);
    for (int i = 0; i < sizes.layers; ++i) {
        const std::string layer = "blk." + std::to_string(i) + ".";
        for (const char *part : {"ffn_gate.weight", "ffn_up.weight", "ffn_down.weight"})
            checkpoint.eraseTensor(layer + part);
        const std::int64_t hidden = sizes.hidden;
        const auto add = [&](const char *part, std::vector<std::int64_t> shape) {
            const std::int64_t count =
                std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
            checkpoint.setTensor(layer + part, shape, randomValues(random, count, 0.4F));
        };
        add("ffn_gate_inp.weight", {experts, hidden});
        add("ffn_gate_exps.weight", {experts, inner, hidden});
        add("ffn_up_exps.weight", {experts, inner, hidden});
        add("ffn_down_exps.weight", {experts, hidden, inner});
    }
    return checkpoint;
}

Values slab(const Values &all, int expert)
{
    const std::size_t size = all.size() / experts;
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(size) * expert;
    return {first, first + static_cast<std::ptrdiff_t>(size)};
}

/// The same with a tensor for each expert, as files of 2023 have them.
MemoryCheckpoint single(const tiny_model::Sizes &sizes)
{
    MemoryCheckpoint checkpoint = mixture(sizes);
    for (int i = 0; i < sizes.layers; ++i) {
        for (const char *part : {"ffn_gate", "ffn_up", "ffn_down"}) {
            const std::string name = "blk." + std::to_string(i) + "." + part;
            const Values all = checkpoint.values(name + "_exps.weight");
            checkpoint.eraseTensor(name + "_exps.weight");
            const bool down = part == std::string("ffn_down");
            for (int e = 0; e < experts; ++e)
                checkpoint.setTensor(name + "." + std::to_string(e) + ".weight",
                                     {down ? sizes.hidden : inner, down ? inner : sizes.hidden}, slab(all, e));
        }
    }
    return checkpoint;
}

/// The same with gate and up in one tensor.
MemoryCheckpoint merged(const tiny_model::Sizes &sizes)
{
    MemoryCheckpoint checkpoint = mixture(sizes);
    for (int i = 0; i < sizes.layers; ++i) {
        const std::string layer = "blk." + std::to_string(i) + ".";
        const Values gate = checkpoint.values(layer + "ffn_gate_exps.weight");
        const Values up = checkpoint.values(layer + "ffn_up_exps.weight");
        Values both;
        for (int e = 0; e < experts; ++e) {
            for (const Values &part : {slab(gate, e), slab(up, e)})
                both.insert(both.end(), part.begin(), part.end());
        }
        checkpoint.eraseTensor(layer + "ffn_gate_exps.weight");
        checkpoint.eraseTensor(layer + "ffn_up_exps.weight");
        checkpoint.setTensor(layer + "ffn_gate_up_exps.weight", {experts, 2 * inner, sizes.hidden}, both);
    }
    return checkpoint;
}

Values logitsOf(const MemoryCheckpoint &checkpoint, bool reference)
{
    const auto runner = tiny_model::makeRunner(checkpoint, {.reference = reference, .threads = 2});
    runner->resizeKv({2, 16});
    return tiny_model::allLogits(*runner, prompt, 0, 16);
}

bool sameBits(const Values &a, const Values &b)
{
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

} // namespace

/// The forms in which files hold experts, without any file.
class ExpertFormsTest : public QObject {
    Q_OBJECT

private slots:
    void formsAreOneModel();
    void choicesAreTold();
    void equalExpertsAreADenseModel();
    void wrongTensorsAreRefused_data();
    void wrongTensorsAreRefused();
    void hugeCountIsRefusedAtOnce();
};

void ExpertFormsTest::formsAreOneModel()
{
    const tiny_model::Sizes sizes;
    for (const bool reference : {true, false}) {
        const Values wanted = logitsOf(mixture(sizes), reference);
        QVERIFY(sameBits(logitsOf(single(sizes), reference), wanted));
        QVERIFY(sameBits(logitsOf(merged(sizes), reference), wanted));
    }
}

void ExpertFormsTest::choicesAreTold()
{
    const MemoryCheckpoint checkpoint = mixture({}); // which the reference backend goes on reading
    const auto runner = tiny_model::makeRunner(checkpoint, {.reference = true, .threads = 1});
    runner->resizeKv({2, 16});
    std::vector<int> layers;
    runner->setRouterCallback([&](const engine::RouterChoice &choice) {
        layers.push_back(choice.layer);
        QCOMPARE(choice.perToken, used);
        QCOMPARE(choice.ids.size(), prompt.size() * used);
        for (std::size_t t = 0; t < prompt.size(); ++t) {
            QVERIFY(choice.ids[2 * t] != choice.ids[2 * t + 1]);
            QVERIFY(choice.weights[2 * t] >= choice.weights[2 * t + 1]);
            QVERIFY(std::abs(choice.weights[2 * t] + choice.weights[2 * t + 1] - 1.0F) < 1e-6F);
        }
    });
    (void)tiny_model::allLogits(*runner, prompt, 0, 16);
    QCOMPARE(layers, (std::vector<int>{0, 1}));
}

/// Weights of the experts picked add up to 1, so experts that are all the same make the dense model.
void ExpertFormsTest::equalExpertsAreADenseModel()
{
    tiny_model::Sizes sizes;
    sizes.intermediate = inner;
    const MemoryCheckpoint dense = tiny_model::makeLlama(sizes);
    MemoryCheckpoint same = mixture(sizes);
    for (int i = 0; i < sizes.layers; ++i) {
        for (const char *part : {"ffn_gate", "ffn_up", "ffn_down"}) {
            const std::string name = "blk." + std::to_string(i) + "." + part;
            const Values &one = dense.values(name + ".weight");
            Values all;
            for (int e = 0; e < experts; ++e)
                all.insert(all.end(), one.begin(), one.end());
            const bool down = part == std::string("ffn_down");
            same.setTensor(name + "_exps.weight", {experts, down ? sizes.hidden : inner, down ? inner : sizes.hidden},
                           all);
        }
    }
    for (const bool reference : {true, false}) {
        const auto difference = tiny_model::compare(logitsOf(same, reference), logitsOf(dense, reference));
        QVERIFY2(difference.maxAbs < 2e-5, qPrintable(QString::number(difference.maxAbs)));
    }
}

void ExpertFormsTest::wrongTensorsAreRefused_data()
{
    QTest::addColumn<QString>("tensor");
    QTest::addColumn<QString>("shape");
    QTest::newRow("router") << QStringLiteral("blk.0.ffn_gate_inp.weight") << QStringLiteral("4x32");
    QTest::newRow("experts") << QStringLiteral("blk.1.ffn_up_exps.weight") << QStringLiteral("4x24x32");
    QTest::newRow("width") << QStringLiteral("blk.1.ffn_gate_exps.weight") << QStringLiteral("5x23x32");
    QTest::newRow("flat") << QStringLiteral("blk.1.ffn_down_exps.weight") << QStringLiteral("160x24");
    QTest::newRow("missing") << QStringLiteral("blk.1.ffn_down_exps.weight") << QString();
}

void ExpertFormsTest::wrongTensorsAreRefused()
{
    QFETCH(QString, tensor);
    QFETCH(QString, shape);
    MemoryCheckpoint checkpoint = mixture({});
    checkpoint.eraseTensor(tensor.toStdString());
    if (!shape.isEmpty()) {
        std::vector<std::int64_t> sizes;
        std::int64_t count = 1;
        for (const QString &size : shape.split(QLatin1Char('x'))) {
            sizes.push_back(size.toLongLong());
            count *= sizes.back();
        }
        checkpoint.setTensor(tensor.toStdString(), sizes, Values(static_cast<std::size_t>(count)));
    }
    try {
        (void)logitsOf(checkpoint, true);
        QFAIL("a model with a wrong tensor was made");
    } catch (const engine::Error &error) {
        QCOMPARE(error.code(), engine::ErrorCode::Refused);
        QVERIFY2(QString::fromUtf8(error.what()).contains(tensor), error.what());
    }
}

void ExpertFormsTest::hugeCountIsRefusedAtOnce()
{
    MemoryCheckpoint checkpoint = single({});
    checkpoint.set("llama.expert_count", std::int64_t{65536});
    try {
        (void)engine::familyOf(checkpoint).readConfig(checkpoint);
        QFAIL("a count of experts beyond the file's tensors was taken");
    } catch (const engine::Error &error) {
        QVERIFY2(QString::fromUtf8(error.what()).contains(QStringLiteral("llama.expert_count is 65536")), error.what());
    }
}

QTEST_GUILESS_MAIN(ExpertFormsTest)
#include "tst_expert_forms.moc"
