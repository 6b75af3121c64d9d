// SPDX-License-Identifier: GPL-3.0-or-later
// Products of W8A8 by the operations of the emulated device: activations are rounded as the file says, by its own scale
// or by that of each row, also where every expert of a mixture has another.
#include "kernels/cuda/runtime.h"
#include "tests/cuda/device_weight.h"
#include "tests/support/float_view.h"
#include "tests/support/tolerance.h"

#include <QTest>

#include <algorithm>
#include <array>

using namespace kernels;
using kernel_data::viewOf;
using kernel_data::Weight;

namespace {

constexpr int inputs = 160;
constexpr int features = 32;
constexpr int tokens = 5;
constexpr int perToken = 2;
constexpr int rows = tokens * perToken;
constexpr std::array<int, rows> ids{0, 2, 1, 0, 2, 1, 1, 2, 0, 1};

/// A weight and the scale that its file has for activations, 0 = none.
struct Matrix {
    Weight weight;
    float scale = 0.0F;

    [[nodiscard]] WeightPart part() const
    {
        WeightPart one = weight.part();
        one.activationScale = scale;
        return one;
    }
    /// Products of row `row` of x, rounded; `scaled` false: as if the file had no scale.
    [[nodiscard]] std::vector<double> products(const std::vector<float> &x, int row, bool scaled = true) const
    {
        const auto width = static_cast<std::ptrdiff_t>(weight.columns);
        const std::vector<float> own(x.begin() + row * width, x.begin() + (row + 1) * width);
        const std::vector<float> rounded = device_rig::roundedRows(own, own.size(), scaled ? scale : 0.0F);
        const std::vector<float> weights = weight.expanded();
        std::vector<double> sums(static_cast<std::size_t>(weight.rows), 0.0);
        for (std::size_t i = 0; i < weights.size(); ++i)
            sums[i / own.size()] += static_cast<double>(weights[i]) * rounded[i % own.size()];
        return sums;
    }
};

Matrix matrixOf(int height, int width, unsigned seed, float scale)
{
    return {kernel_data::randomWeight(DType::W8A8, height, width, seed), scale};
}

/// Three experts; their scales by part.
struct Mixture {
    explicit Mixture(const std::array<std::array<float, 3>, 3> &scales)
        : ops(cuda::makeCudaOps(cuda::makeSimtRuntime({})))
    {
        for (unsigned e = 0; e < 3; ++e) {
            gate.push_back(matrixOf(features, inputs, 10 + e, scales[0][e]));
            up.push_back(matrixOf(features, inputs, 20 + e, scales[1][e]));
            down.push_back(matrixOf(inputs, features, 30 + e, scales[2][e]));
            const std::array both{gate.back().part(), up.back().part()};
            const std::array one{down.back().part()};
            gateUpPacked.push_back(packed.emplace_back(ops->pack(both)).get());
            downPacked.push_back(packed.emplace_back(ops->pack(one)).get());
        }
    }

    [[nodiscard]] std::vector<float> gated(std::vector<float> x) const
    {
        std::vector<int> chosen(ids.begin(), ids.end());
        std::vector<float> out(static_cast<std::size_t>(rows * features));
        const auto stream = ops->makeStream();
        ops->expertsGated(gateUpPacked, Activation::Relu, viewOf(x, tokens, inputs),
                          makeView(chosen.data(), DType::I32, tokens, perToken), {}, viewOf(out, rows, features),
                          *stream);
        stream->synchronize();
        return out;
    }
    [[nodiscard]] std::vector<float> wantedGated(const std::vector<float> &x, bool scaled) const
    {
        std::vector<float> out;
        for (int row = 0; row < rows; ++row) {
            const auto expert = static_cast<std::size_t>(ids[static_cast<std::size_t>(row)]);
            const std::vector<double> gates = gate[expert].products(x, row / perToken, scaled);
            const std::vector<double> ups = up[expert].products(x, row / perToken, scaled);
            for (std::size_t i = 0; i < gates.size(); ++i)
                out.push_back(static_cast<float>(std::max(gates[i], 0.0) * ups[i]));
        }
        return out;
    }

    [[nodiscard]] std::vector<float> combined(std::vector<float> inner, std::vector<float> weights) const
    {
        std::vector<int> chosen(ids.begin(), ids.end());
        std::vector<float> out(static_cast<std::size_t>(tokens * inputs));
        const auto stream = ops->makeStream();
        ops->expertsCombine(downPacked, viewOf(inner, rows, features),
                            makeView(chosen.data(), DType::I32, tokens, perToken), viewOf(weights, tokens, perToken),
                            {}, viewOf(out, tokens, inputs), *stream);
        stream->synchronize();
        return out;
    }
    [[nodiscard]] std::vector<float> wantedCombined(const std::vector<float> &inner, const std::vector<float> &weights,
                                                    bool scaled) const
    {
        std::vector<double> sums(static_cast<std::size_t>(tokens * inputs));
        for (int row = 0; row < rows; ++row) {
            const auto at = static_cast<std::size_t>(row);
            const std::vector<double> own = down[static_cast<std::size_t>(ids[at])].products(inner, row, scaled);
            for (std::size_t i = 0; i < own.size(); ++i)
                sums[at / perToken * own.size() + i] += static_cast<double>(weights[at]) * own[i];
        }
        return {sums.begin(), sums.end()};
    }

    std::unique_ptr<Ops> ops;
    std::vector<Matrix> gate;
    std::vector<Matrix> up;
    std::vector<Matrix> down;
    std::vector<std::unique_ptr<PackedWeight>> packed;
    std::vector<const PackedWeight *> gateUpPacked;
    std::vector<const PackedWeight *> downPacked;
};

/// Products of the same rounded numbers differ in float rounding alone, those of others by what rounding leaves.
constexpr double sameNumbers = 1e-11;
constexpr double otherNumbers = 1e-7;

} // namespace

class TestCudaInt8 : public QObject {
    Q_OBJECT

private slots:
    void partsOfAMatrix();
    void mixtures_data();
    void mixtures();
};

/// Each part by its own scale, the last one by that of the row.
void TestCudaInt8::partsOfAMatrix()
{
    const std::array matrices{matrixOf(features, inputs, 1, 0.004F), matrixOf(features, inputs, 2, 0.006F),
                              matrixOf(features, inputs, 3, 0.0F)};
    const std::array parts{matrices[0].part(), matrices[1].part(), matrices[2].part()};
    const auto ops = cuda::makeCudaOps(cuda::makeSimtRuntime({}));
    const auto weight = ops->pack(parts);
    std::vector<float> x = kernel_data::randomFloats(static_cast<std::size_t>(tokens * inputs), 4);
    std::vector<float> found(static_cast<std::size_t>(tokens * 3 * features));
    const auto stream = ops->makeStream();
    ops->linear(*weight, viewOf(x, tokens, inputs), viewOf(found, tokens, 3 * features), nullptr, *stream);
    stream->synchronize();
    for (const bool scaled : {true, false}) {
        std::vector<float> wanted;
        for (int token = 0; token < tokens; ++token)
            for (const Matrix &matrix : matrices)
                for (const double sum : matrix.products(x, token, scaled))
                    wanted.push_back(static_cast<float>(sum));
        const double error = tolerance::nmse(found, wanted);
        QVERIFY2(scaled ? error <= sameNumbers : error > otherNumbers, qPrintable(QString::number(error)));
    }
}

void TestCudaInt8::mixtures_data()
{
    QTest::addColumn<std::array<std::array<float, 3>, 3>>("scales");
    using Scales = std::array<std::array<float, 3>, 3>;
    constexpr std::array<float, 3> none{0.0F, 0.0F, 0.0F};
    constexpr std::array<float, 3> equal{0.004F, 0.004F, 0.004F};
    constexpr std::array<float, 3> own{0.004F, 0.006F, 0.005F};
    constexpr std::array<float, 3> other{0.005F, 0.004F, 0.007F};
    QTest::newRow("of rows") << Scales{none, none, none};
    QTest::newRow("one for all") << Scales{equal, equal, equal};
    QTest::newRow("one of each expert") << Scales{own, own, other};
    QTest::newRow("of each matrix") << Scales{own, other, own};
    QTest::newRow("of some experts") << Scales{std::array{0.004F, 0.0F, 0.005F}, equal, std::array{0.0F, 0.0F, 0.01F}};
}

void TestCudaInt8::mixtures()
{
    using Scales = std::array<std::array<float, 3>, 3>;
    QFETCH(Scales, scales);
    const Mixture mixture(scales);
    const bool fixed = scales[0][0] > 0.0F;
    const std::vector<float> x = kernel_data::randomFloats(static_cast<std::size_t>(tokens * inputs), 5);
    const std::vector<float> inner = kernel_data::randomFloats(static_cast<std::size_t>(rows * features), 6);
    const std::vector<float> weights = kernel_data::randomFloats(rows, 7);
    const std::vector<float> gated = mixture.gated(x);
    const std::vector<float> combined = mixture.combined(inner, weights);
    QVERIFY(tolerance::nmse(gated, mixture.wantedGated(x, true)) <= sameNumbers);
    QVERIFY(tolerance::nmse(combined, mixture.wantedCombined(inner, weights, true)) <= sameNumbers);
    if (!fixed)
        return;
    QVERIFY(tolerance::nmse(gated, mixture.wantedGated(x, false)) > otherNumbers);
    QVERIFY(tolerance::nmse(combined, mixture.wantedCombined(inner, weights, false)) > otherNumbers);
}

QTEST_GUILESS_MAIN(TestCudaInt8)
#include "tst_cuda_int8.moc"
