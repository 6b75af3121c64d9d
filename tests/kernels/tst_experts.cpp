// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/ops.h"
#include "tests/support/float_view.h"
#include "tests/support/kernel_data.h"
#include "tests/support/tolerance.h"

#include <QTest>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

using namespace kernels;
using kernel_data::viewOf;
using kernel_data::Weight;
using Scores = RouterShape::Scores;
using GroupRule = RouterShape::GroupRule;

Q_DECLARE_METATYPE(kernels::DType)

namespace {

bool sameBits(const std::vector<float> &a, const std::vector<float> &b)
{
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Choices of one step.
struct Choice {
    Choice(std::int64_t tokens, int used)
        : tokens(tokens)
        , used(used)
        , ids(static_cast<std::size_t>(tokens * used), -1)
        , weights(ids.size())
    {
    }
    TensorView idView() { return makeView(ids.data(), DType::I32, tokens, used); }
    TensorView weightView() { return viewOf(weights, tokens, used); }

    std::int64_t tokens;
    int used;
    std::vector<std::int32_t> ids;
    std::vector<float> weights;
};

Choice route(Ops &ops, const RouterShape &shape, std::vector<float> logits)
{
    const auto stream = ops.makeStream();
    const std::int64_t tokens = std::ssize(logits) / shape.experts;
    Choice choice(tokens, shape.expertsUsed);
    ops.route(viewOf(logits, tokens, shape.experts), shape, choice.idView(), choice.weightView(), *stream);
    return choice;
}

/// Weights of all experts, packed by one backend.
struct ExpertSet {
    ExpertSet(Ops &ops, DType type, int experts, std::int64_t hidden, std::int64_t inner)
    {
        for (int e = 0; e < experts; ++e) {
            const auto seed = static_cast<std::uint32_t>(10 * e);
            sources.push_back(kernel_data::randomWeight(type, inner, hidden, seed));
            sources.push_back(kernel_data::randomWeight(type, inner, hidden, seed + 1));
            sources.push_back(kernel_data::randomWeight(type, hidden, inner, seed + 2));
            biases.push_back(kernel_data::randomFloats(static_cast<std::size_t>(2 * inner), seed + 3));
            biases.push_back(kernel_data::randomFloats(static_cast<std::size_t>(hidden), seed + 4));
        }
        for (std::size_t e = 0; e < static_cast<std::size_t>(experts); ++e) {
            const std::vector<WeightPart> pair{sources[3 * e].part("gate"), sources[3 * e + 1].part("up")};
            const WeightPart last = sources[3 * e + 2].part("down");
            packed.push_back(ops.pack(pair));
            gateUp.push_back(packed.back().get());
            packed.push_back(ops.pack({&last, 1}));
            down.push_back(packed.back().get());
            gateBias.push_back(biases[2 * e].data());
            downBias.push_back(biases[2 * e + 1].data());
        }
    }

    std::vector<Weight> sources;
    std::vector<std::vector<float>> biases;
    std::vector<std::unique_ptr<PackedWeight>> packed;
    std::vector<const PackedWeight *> gateUp;
    std::vector<const PackedWeight *> down;
    std::vector<const float *> gateBias;
    std::vector<const float *> downBias;
};

/// What a block computes: the gated products, and the sums that some other inner activations give.
struct Results {
    std::vector<float> gated;
    std::vector<float> combined;
};

/// Both operations on rows [first, last) of x, of `inner` (k rows for each of x) and of the choice, added to ones.
Results feedForward(Ops &ops, const ExpertSet &set, std::vector<float> x, std::vector<float> inner, const Choice &all,
                    std::int64_t first, std::int64_t last, bool biased)
{
    const auto stream = ops.makeStream();
    const std::int64_t hidden = set.down[0]->rows();
    const std::int64_t width = set.down[0]->columns();
    const std::int64_t tokens = last - first;
    const std::int64_t rows = tokens * all.used;
    Choice choice(tokens, all.used);
    std::copy_n(all.ids.begin() + first * all.used, choice.ids.size(), choice.ids.begin());
    std::copy_n(all.weights.begin() + first * all.used, choice.weights.size(), choice.weights.begin());
    const auto bias = [&](const std::vector<const float *> &list) {
        return biased ? std::span<const float *const>(list) : std::span<const float *const>();
    };
    Results results{std::vector<float>(static_cast<std::size_t>(rows * width)),
                    std::vector<float>(static_cast<std::size_t>(tokens * hidden), 1.0F)};
    ops.expertsGated(set.gateUp, biased ? Activation::SwigluClamped : Activation::Silu,
                     makeView(x.data() + first * hidden, DType::F32, tokens, hidden), choice.idView(),
                     bias(set.gateBias), viewOf(results.gated, rows, width), *stream);
    ops.expertsCombine(set.down, makeView(inner.data() + first * all.used * width, DType::F32, rows, width),
                       choice.idView(), choice.weightView(), bias(set.downBias),
                       viewOf(results.combined, tokens, hidden), *stream);
    return results;
}

/// Activations that no type rounds.
std::vector<float> activations(DType type, std::int64_t rows, std::int64_t columns, std::uint32_t seed)
{
    return info(type).quantized ? kernel_data::exactActivations(rows, columns, seed)
                                : kernel_data::randomFloats(static_cast<std::size_t>(rows * columns), seed);
}

} // namespace

class TestExperts : public QObject {
    Q_OBJECT

private slots:
    void routesByHand_data();
    void routesByHand();
    void routesOddLogits_data() { backends(); }
    void routesOddLogits();
    void blockMatchesReference_data();
    void blockMatchesReference();
    void neighboursDoNotMatter_data();
    void neighboursDoNotMatter();
    void headsMatchLinear_data() { neighboursDoNotMatter_data(); }
    void headsMatchLinear();
    void wrongChoicesAreRefused_data() { backends(); }
    void wrongChoicesAreRefused();

private:
    static void backends();
    static std::unique_ptr<Ops> backend(const QString &name);
};

void TestExperts::backends()
{
    QTest::addColumn<QString>("backend");
    QTest::newRow("reference") << QStringLiteral("reference");
    QTest::newRow("cpu") << QStringLiteral("cpu");
}

std::unique_ptr<Ops> TestExperts::backend(const QString &name)
{
    return name == QStringLiteral("cpu") ? kernel_data::cpu("auto", 2) : kernel_data::reference();
}

// Rules of moe-and-speculation.md, section 5, with logits = log(score) so that the softmax is the score.
void TestExperts::routesByHand_data()
{
    using Ids = QList<int>;
    using Weights = QList<double>;
    QTest::addColumn<int>("scores");
    QTest::addColumn<bool>("normalise");
    QTest::addColumn<double>("scale");
    QTest::addColumn<int>("groups");
    QTest::addColumn<int>("groupRule");
    QTest::addColumn<QList<double>>("bias");
    QTest::addColumn<Ids>("ids");
    QTest::addColumn<Weights>("weights");
    const auto soft = static_cast<int>(Scores::Softmax);
    const auto sigmoid = static_cast<int>(Scores::Sigmoid);
    const auto selected = static_cast<int>(Scores::SelectedSoftmax);
    const auto best = static_cast<int>(GroupRule::Max);
    const auto two = static_cast<int>(GroupRule::TopTwo);
    // Scores 0.30 0.05 | 0.20 0.19 | 0.01 0.16 | 0.02 0.07; as odds for the sigmoid they are s / (1 - s).
    QTest::newRow("not renormalised") << soft << false << 1.0 << 1 << best << Weights() << Ids{0, 2}
                                      << Weights{0.3, 0.2};
    QTest::newRow("renormalised") << soft << true << 1.0 << 1 << best << Weights() << Ids{0, 2} << Weights{0.6, 0.4};
    QTest::newRow("of those selected") << selected << false << 1.0 << 1 << best << Weights() << Ids{0, 2}
                                       << Weights{0.6, 0.4};
    QTest::newRow("scaled") << soft << false << 16.0 << 1 << best << Weights() << Ids{0, 2} << Weights{4.8, 3.2};
    QTest::newRow("best group by its best")
        << soft << false << 1.0 << 4 << best << Weights() << Ids{0, 1} << Weights{0.3, 0.05};
    QTest::newRow("best group by its two best")
        << soft << false << 1.0 << 4 << two << Weights() << Ids{2, 3} << Weights{0.2, 0.19};
    QTest::newRow("sigmoid") << sigmoid << true << 2.5 << 1 << best << Weights() << Ids{0, 2} << Weights{1.5, 1.0};
    QTest::newRow("bias selects only") << sigmoid << true << 1.0 << 1 << best << Weights{0, 0, 0, 0, 0, 0, 0, 0.5}
                                       << Ids{0, 7} << Weights{0.3 / 0.37, 0.07 / 0.37};
    QTest::newRow("bias moves the group") << sigmoid << false << 1.0 << 4 << two << Weights{0, 0, 0, 0, 0, 0, 0.1, 0.3}
                                          << Ids{7, 6} << Weights{0.07, 0.02};
    // Everything in the one chosen group is below zero, so the masked experts, which count 0, come first.
    QTest::newRow("masked counts zero") << sigmoid << false << 1.0 << 4 << two
                                        << Weights{-1, -2, -9, -9, -9, -9, -9, -9} << Ids{2, 3} << Weights{0.2, 0.19};
}

void TestExperts::routesByHand()
{
    QFETCH(int, scores);
    QFETCH(bool, normalise);
    QFETCH(double, scale);
    QFETCH(int, groups);
    QFETCH(int, groupRule);
    QFETCH(QList<double>, bias);
    QFETCH(QList<int>, ids);
    QFETCH(QList<double>, weights);
    const std::vector<double> score{0.30, 0.05, 0.20, 0.19, 0.01, 0.16, 0.02, 0.07};
    const std::vector<float> biasFloats(bias.begin(), bias.end());
    RouterShape shape;
    shape.experts = 8;
    shape.expertsUsed = 2;
    shape.scores = static_cast<Scores>(scores);
    shape.normalise = normalise;
    shape.scale = static_cast<float>(scale);
    shape.groups = groups;
    shape.groupRule = static_cast<GroupRule>(groupRule);
    shape.selectionBias = bias.isEmpty() ? nullptr : biasFloats.data();
    std::vector<float> logits;
    for (int token = 0; token < 3; ++token) {
        for (const double s : score) {
            const double odds = shape.scores == Scores::Sigmoid ? s / (1.0 - s) : s;
            logits.push_back(static_cast<float>(std::log(odds)));
        }
    }
    for (const char *name : {"reference", "cpu"}) {
        const Choice choice = route(*backend(name), shape, logits);
        for (std::size_t i = 0; i < choice.ids.size(); ++i) {
            QCOMPARE(choice.ids[i], ids[static_cast<qsizetype>(i % 2)]);
            QVERIFY(std::abs(choice.weights[i] - weights[static_cast<qsizetype>(i % 2)]) < 1e-6);
        }
    }
}

void TestExperts::routesOddLogits()
{
    QFETCH(QString, backend);
    const auto ops = TestExperts::backend(backend);
    RouterShape shape;
    shape.experts = 5;
    shape.expertsUsed = 3;
    QCOMPARE(route(*ops, shape, {2, 7, 7, 7, 7}).ids, (std::vector<std::int32_t>{1, 2, 3})); // ties: the lower id
    QCOMPARE(route(*ops, shape, {0, 0, 0, 0, 0}).ids, (std::vector<std::int32_t>{0, 1, 2}));
    // Routers of small scale: float32 rounds the scores of the third and fourth to one number.
    QCOMPARE(route(*ops, shape, {1e-3F, 1e-3F, 2.639e-5F, 2.6425e-5F, 0}).ids[2], 3);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const Choice broken = route(*ops, shape, {nan, 1, nan, 2, 3}); // shows in the weights, never in an id out of range
    QVERIFY(std::isnan(broken.weights[0]));
    for (const std::int32_t id : broken.ids)
        QVERIFY(id >= 0 && id < 5);
    shape.scores = Scores::SelectedSoftmax;
    QCOMPARE(route(*ops, shape, {-1000, 3000, 0, 2999, 1}).ids, (std::vector<std::int32_t>{1, 3, 4}));
    shape.expertsUsed = 5;
    const Choice all = route(*ops, shape, {1, 5, 3, 4, 2});
    QCOMPARE(all.ids, (std::vector<std::int32_t>{1, 3, 2, 4, 0}));
    QVERIFY(std::abs(std::accumulate(all.weights.begin(), all.weights.end(), 0.0F) - 1.0F) < 1e-6F);
}

void TestExperts::blockMatchesReference_data()
{
    QTest::addColumn<QString>("level");
    QTest::addColumn<DType>("type");
    for (const std::string &level : kernel_data::allLevels()) {
        for (const DType type : {DType::F32, DType::BF16, DType::Q8_0, DType::Q4_K, DType::MXFP4})
            QTest::addRow("%s %s", level.c_str(), std::string(info(type).name).c_str())
                << QString::fromStdString(level) << type;
    }
}

void TestExperts::blockMatchesReference()
{
    QFETCH(QString, level);
    QFETCH(DType, type);
    if (!kernel_data::hasLevel(level.toStdString()))
        QSKIP(qPrintable(QStringLiteral("this machine lacks the level %1").arg(level)));
    const auto ops = kernel_data::cpu(level.toStdString(), 2);
    const auto truth = kernel_data::reference();
    const std::int64_t hidden = info(type).blockElements == 1 ? 37 : 256; // odd where a type allows it
    const std::int64_t inner = info(type).blockElements == 1 ? 21 : 256;
    const ExpertSet set(*ops, type, 6, hidden, inner);
    const ExpertSet plain(*truth, type, 6, hidden, inner);
    for (const std::int64_t tokens : {1, 5, 150}) {
        const std::vector<float> x = activations(type, tokens, hidden, 3);
        const std::vector<float> middle = activations(type, tokens * 3, inner, 5);
        RouterShape shape;
        shape.experts = 6;
        shape.expertsUsed = 3;
        std::vector<float> logits = kernel_data::randomFloats(static_cast<std::size_t>(tokens * 6), 4);
        for (std::size_t i = 4; i < logits.size(); i += 6)
            logits[i] = -9.0F; // an expert that nobody takes
        const Choice choice = route(*ops, shape, logits);
        for (const bool biased : {false, true}) {
            const Results found = feedForward(*ops, set, x, middle, choice, 0, tokens, biased);
            const Results wanted = feedForward(*truth, plain, x, middle, choice, 0, tokens, biased);
            const double limit = info(type).quantized ? tolerance::exactActivations : tolerance::product(type);
            QVERIFY(tolerance::nmse(found.gated, wanted.gated) <= limit);
            QVERIFY(tolerance::nmse(found.combined, wanted.combined) <= limit);
        }
    }
}

void TestExperts::neighboursDoNotMatter_data()
{
    QTest::addColumn<QString>("level");
    for (const std::string &level : kernel_data::allLevels())
        QTest::newRow(level.c_str()) << QString::fromStdString(level);
}

void TestExperts::neighboursDoNotMatter()
{
    QFETCH(QString, level);
    if (!kernel_data::hasLevel(level.toStdString()))
        QSKIP(qPrintable(QStringLiteral("this machine lacks the level %1").arg(level)));
    constexpr std::int64_t tokens = 700; // several waves of rows
    constexpr std::int64_t hidden = 96;
    for (const DType type : {DType::F32, DType::Q4_0}) {
        const auto alone = kernel_data::cpu(level.toStdString(), 1);
        const ExpertSet set(*alone, type, 4, hidden, 64);
        RouterShape shape;
        shape.experts = 4;
        shape.expertsUsed = 2;
        const Choice choice = route(*alone, shape, kernel_data::randomFloats(tokens * 4, 8));
        const std::vector<float> x = kernel_data::randomFloats(tokens * hidden, 9);
        const std::vector<float> middle = kernel_data::randomFloats(tokens * 2 * 64, 10);
        const Results wanted = feedForward(*alone, set, x, middle, choice, 0, tokens, true);
        const auto ops = kernel_data::cpu(level.toStdString(), 3);
        const ExpertSet shared(*ops, type, 4, hidden, 64);
        for (const std::vector<std::int64_t> &cuts :
             {std::vector<std::int64_t>{0, tokens}, std::vector<std::int64_t>{0, 1, 2, 130, 131, 690, tokens}}) {
            Results found;
            for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
                const Results part = feedForward(*ops, shared, x, middle, choice, cuts[i], cuts[i + 1], true);
                found.gated.insert(found.gated.end(), part.gated.begin(), part.gated.end());
                found.combined.insert(found.combined.end(), part.combined.begin(), part.combined.end());
            }
            QVERIFY(sameBits(found.gated, wanted.gated));
            QVERIFY(sameBits(found.combined, wanted.combined));
        }
    }
}

void TestExperts::headsMatchLinear()
{
    QFETCH(QString, level);
    if (!kernel_data::hasLevel(level.toStdString()))
        QSKIP(qPrintable(QStringLiteral("this machine lacks the level %1").arg(level)));
    constexpr std::int64_t heads = 5;
    for (const DType type : {DType::F32, DType::Q8_0}) {
        const std::int64_t columns = 64;
        const std::int64_t rows = 19;
        const auto ops = kernel_data::cpu(level.toStdString(), 3);
        const auto stream = ops->makeStream();
        std::vector<std::unique_ptr<PackedWeight>> packed;
        std::vector<const PackedWeight *> weights;
        for (std::uint32_t h = 0; h < heads; ++h) {
            const Weight weight = kernel_data::randomWeight(type, rows, columns, h);
            const WeightPart part = weight.part();
            packed.push_back(ops->pack({&part, 1}));
            weights.push_back(packed.back().get());
        }
        for (const std::int64_t tokens : {1, 300}) {
            const std::int64_t inStride = heads * (columns + 3); // heads are parts of wider ones
            const std::int64_t outStride = heads * (rows + 2);
            std::vector<float> x = kernel_data::randomFloats(static_cast<std::size_t>(tokens * inStride), 9);
            std::vector<float> found(static_cast<std::size_t>(tokens * outStride), 7.0F);
            std::vector<float> wanted = found;
            TensorView in = makeView(x.data(), DType::F32, tokens, heads, columns);
            in.strides = {inStride, columns + 3, 1, 0};
            TensorView out = makeView(found.data(), DType::F32, tokens, heads, rows);
            out.strides = {outStride, rows + 2, 1, 0};
            ops->linearHeads(weights, in, out, *stream);
            for (std::int64_t h = 0; h < heads; ++h) {
                TensorView one = viewOf(x, tokens, columns);
                one.data += h * (columns + 3) * 4;
                one.strides[0] = inStride;
                TensorView target = viewOf(wanted, tokens, rows);
                target.data += h * (rows + 2) * 4;
                target.strides[0] = outStride;
                ops->linear(*weights[static_cast<std::size_t>(h)], one, target, nullptr, *stream);
            }
            QVERIFY(sameBits(found, wanted));
        }
    }
}

void TestExperts::wrongChoicesAreRefused()
{
    QFETCH(QString, backend);
    const auto ops = TestExperts::backend(backend);
    const auto stream = ops->makeStream();
    const ExpertSet set(*ops, DType::F32, 2, 8, 4);
    std::vector<float> x(8);
    std::vector<float> middle(4);
    std::vector<float> out(8);
    Choice choice(1, 1);
    choice.ids = {2};
    QVERIFY_EXCEPTION_THROWN(ops->expertsGated(set.gateUp, Activation::Silu, viewOf(x, 1, 8), choice.idView(), {},
                                               viewOf(middle, 1, 4), *stream),
                             Error);
    choice.ids = {1};
    QVERIFY_EXCEPTION_THROWN(ops->expertsGated(set.gateUp, Activation::Silu, viewOf(x, 1, 8), choice.idView(), {},
                                               viewOf(middle, 2, 2), *stream),
                             Error);
    QVERIFY_EXCEPTION_THROWN(ops->expertsCombine(set.down, viewOf(x, 1, 8), choice.idView(), choice.weightView(), {},
                                                 viewOf(out, 1, 8), *stream),
                             Error);
    RouterShape shape;
    shape.experts = 2;
    shape.expertsUsed = 3;
    QVERIFY_EXCEPTION_THROWN(route(*ops, shape, {0, 1}), Error);
}

QTEST_GUILESS_MAIN(TestExperts)
#include "tst_experts.moc"
