// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/error.h"
#include "kernels/quantize.h"
#include "tests/support/shared_data.h"

#include <QTest>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

using kernels::DType;

Q_DECLARE_METATYPE(kernels::DType)

namespace {

constexpr std::int64_t columns = 512;
constexpr std::int64_t rows = 200;

const std::vector<DType> searchedTypes{DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q5_1,   DType::Q2_K,  DType::Q3_K,
                                       DType::Q4_K, DType::Q5_K, DType::Q6_K, DType::IQ4_NL, DType::IQ4_XS};
const std::vector<DType> roundedTypes{DType::Q8_0, DType::MXFP4, DType::TQ1_0, DType::TQ2_0};

QString nameOf(DType type)
{
    return QString::fromStdString(std::string(kernels::info(type).name));
}

std::vector<float> gaussians(std::size_t count, std::uint32_t seed)
{
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    std::generate(values.begin(), values.end(), [&] { return normal(random); });
    return values;
}

std::vector<std::byte> quantized(DType type, const std::vector<float> &values, std::int64_t width,
                                 const float *importance = nullptr)
{
    const std::size_t bytes = kernels::rowBytes(type, width);
    const auto count = static_cast<std::int64_t>(values.size()) / width;
    std::vector<std::byte> result(bytes * static_cast<std::size_t>(count));
    for (std::int64_t r = 0; r < count; ++r)
        kernels::quantizeRow(type, values.data() + r * width, width, importance,
                             result.data() + static_cast<std::size_t>(r) * bytes);
    return result;
}

std::vector<float> expanded(DType type, const std::vector<std::byte> &bytes, std::size_t count)
{
    std::vector<float> values(count);
    kernels::dequantize(type, bytes.data(), values.data(), static_cast<std::int64_t>(count));
    return values;
}

/// Root of weighted squared errors over weighted squares; null weights count alike.
double relativeError(const std::vector<float> &found, const std::vector<float> &wanted, std::int64_t width,
                     const float *weights = nullptr)
{
    double error = 0.0;
    double square = 0.0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const double weight = weights != nullptr ? weights[i % static_cast<std::size_t>(width)] : 1.0;
        error += weight * std::pow(static_cast<double>(found[i]) - wanted[i], 2);
        square += weight * std::pow(static_cast<double>(wanted[i]), 2);
    }
    return std::sqrt(error / square);
}

double errorAfter(DType type, const std::vector<float> &values, std::int64_t width, const float *importance = nullptr,
                  const float *weights = nullptr)
{
    return relativeError(expanded(type, quantized(type, values, width, importance), values.size()), values, width,
                         weights);
}

std::vector<float> floatsOf(const QByteArray &bytes)
{
    std::vector<float> values(static_cast<std::size_t>(bytes.size()) / sizeof(float));
    std::memcpy(values.data(), bytes.constData(), values.size() * sizeof(float));
    return values;
}

} // namespace

class TestQuantize : public QObject {
    Q_OBJECT

private slots:
    void roundsAsThePackage_data();
    void roundsAsThePackage();
    void searchBeatsRounding_data();
    void searchBeatsRounding();
    void errorOfGaussians_data();
    void errorOfGaussians();
    void importanceHelpsWhereItCounts_data();
    void importanceHelpsWhereItCounts();
    void hardBlocks_data();
    void hardBlocks();
    void whatWasQuantizedStays_data();
    void whatWasQuantizedStays();
    void plainTypes();
    void ranges();
};

void TestQuantize::roundsAsThePackage_data()
{
    QTest::addColumn<DType>("type");
    for (const DType type : {DType::BF16, DType::Q8_0, DType::MXFP4, DType::TQ1_0, DType::TQ2_0})
        QTest::addRow("%s", qPrintable(nameOf(type))) << type;
}

void TestQuantize::roundsAsThePackage()
{
    QFETCH(DType, type);
    const std::vector<float> values =
        floatsOf(shared_data::read(shared_data::data("gguf_dequant/" + nameOf(type) + ".q.f32")));
    const QByteArray wanted = shared_data::read(shared_data::data("gguf_dequant/" + nameOf(type) + ".q.bin"));
    QVERIFY(!values.empty() && !wanted.isEmpty());
    const std::vector<std::byte> found = quantized(type, values, static_cast<std::int64_t>(values.size()) / 8);
    QCOMPARE(QByteArray(reinterpret_cast<const char *>(found.data()), static_cast<qsizetype>(found.size())), wanted);
}

void TestQuantize::searchBeatsRounding_data()
{
    QTest::addColumn<DType>("type");
    for (const DType type : {DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q5_1})
        QTest::addRow("%s", qPrintable(nameOf(type))) << type;
}

/// The package rounds to nearest at the scale of the largest value; a search must do better on the same rows.
void TestQuantize::searchBeatsRounding()
{
    QFETCH(DType, type);
    const std::vector<float> values =
        floatsOf(shared_data::read(shared_data::data("gguf_dequant/" + nameOf(type) + ".q.f32")));
    const QByteArray bytes = shared_data::read(shared_data::data("gguf_dequant/" + nameOf(type) + ".q.bin"));
    QVERIFY(!values.empty() && !bytes.isEmpty());
    std::vector<float> rounded(values.size());
    kernels::dequantize(type, reinterpret_cast<const std::byte *>(bytes.constData()), rounded.data(),
                        static_cast<std::int64_t>(rounded.size()));
    const double once = relativeError(rounded, values, 32);
    const double searched = errorAfter(type, values, 32);
    QVERIFY2(searched < 0.99 * once, qPrintable(QString("%1 against %2").arg(searched).arg(once)));
}

void TestQuantize::errorOfGaussians_data()
{
    QTest::addColumn<DType>("type");
    QTest::addColumn<double>("bound");
    // Source: ggml's own quantizers without importance on Gaussian weights; a fiftieth above them is allowed.
    const std::vector<std::pair<DType, double>> bounds{
        {DType::Q8_0, .0053},   {DType::Q6_K, .0173}, {DType::Q5_K, .0356},   {DType::Q5_1, .0373},
        {DType::Q5_0, .0419},   {DType::Q4_K, .0695}, {DType::IQ4_NL, .0766}, {DType::Q4_1, .0771},
        {DType::IQ4_XS, .0772}, {DType::Q4_0, .0852}, {DType::Q3_K, .1499},   {DType::Q2_K, .2933},
        {DType::MXFP4, .1147}};
    for (const auto &[type, bound] : bounds)
        QTest::addRow("%s", qPrintable(nameOf(type))) << type << bound;
}

void TestQuantize::errorOfGaussians()
{
    QFETCH(DType, type);
    QFETCH(double, bound);
    const double error = errorAfter(type, gaussians(rows * columns, 1), columns);
    QVERIFY2(error <= 1.02 * bound, qPrintable(QString::number(error)));
    QVERIFY2(error >= 0.8 * bound, qPrintable(QString::number(error))); // lower could not be this type's bits
}

void TestQuantize::importanceHelpsWhereItCounts_data()
{
    QTest::addColumn<DType>("type");
    for (const DType type : searchedTypes)
        QTest::addRow("%s", qPrintable(nameOf(type))) << type;
}

void TestQuantize::importanceHelpsWhereItCounts()
{
    QFETCH(DType, type);
    const std::vector<float> values = gaussians(rows * columns, 2);
    std::vector<float> importance = gaussians(columns, 3);
    for (float &weight : importance)
        weight = 1e-12F * std::pow(weight, 4); // very uneven, and of a far scale
    const double without = errorAfter(type, values, columns, nullptr, importance.data());
    const double with = errorAfter(type, values, columns, importance.data(), importance.data());
    QVERIFY2(with < 0.95 * without, qPrintable(QString("%1 against %2").arg(with).arg(without)));
    const std::vector<float> zeros(columns, 0.0F);
    QVERIFY(quantized(type, values, columns, zeros.data()) == quantized(type, values, columns));
}

void TestQuantize::hardBlocks_data()
{
    QTest::addColumn<DType>("type");
    for (const std::vector<DType> &types : {searchedTypes, roundedTypes}) {
        for (const DType type : types)
            QTest::addRow("%s", qPrintable(nameOf(type))) << type;
    }
}

void TestQuantize::hardBlocks()
{
    QFETCH(DType, type);
    const auto check = [type](const char *what, const std::vector<float> &block, double most) {
        std::vector<float> importance(block.size(), 0.0F);
        importance[3] = 1.0F; // all others were never met
        for (const float *weights : std::vector<const float *>{nullptr, importance.data()}) {
            const std::vector<float> found = expanded(type, quantized(type, block, 256, weights), block.size());
            double worst = 0.0;
            for (std::size_t i = 0; i < block.size(); ++i) {
                QVERIFY2(std::isfinite(found[i]), what);
                worst = std::max(worst, std::fabs(static_cast<double>(found[i]) - block[i]));
            }
            QVERIFY2(worst <= most, qPrintable(QString("%1: off by %2").arg(what).arg(worst)));
        }
    };
    check("zeros", std::vector<float>(256, 0.0F), 0.0);
    check("tiny", std::vector<float>(256, 1e-38F), 1e-7);
    check("smallest", std::vector<float>(256, -1e-45F), 1e-7);
    check("all alike", std::vector<float>(256, 0.75F), 0.75 / 3);
    check("all alike, negative", std::vector<float>(256, -3.0F), 1.0);
    std::vector<float> spike(256, 0.0F);
    spike[77] = -1000.0F;
    check("one spike", spike, 260.0);
    check("large", std::vector<float>(256, 60000.0F), 20000.0);
}

void TestQuantize::whatWasQuantizedStays_data()
{
    importanceHelpsWhereItCounts_data();
}

/// Values that a type holds exactly come back nearly unharmed: the search finds their scales again.
void TestQuantize::whatWasQuantizedStays()
{
    QFETCH(DType, type);
    const std::vector<float> values = gaussians(16 * columns, 4);
    const std::vector<float> once = expanded(type, quantized(type, values, columns), values.size());
    const double first = relativeError(once, values, columns);
    const double again = errorAfter(type, once, columns);
    QVERIFY2(again < 0.45 * first, qPrintable(QString("%1 after %2").arg(again).arg(first)));
}

void TestQuantize::plainTypes()
{
    const std::vector<float> values = gaussians(64, 5);
    QCOMPARE(errorAfter(DType::F32, values, 64), 0.0);
    QVERIFY(errorAfter(DType::F16, values, 64) < 5e-4);
    QVERIFY(errorAfter(DType::BF16, values, 64) < 4e-3);
    QVERIFY(!kernels::canQuantize(DType::I8) && !kernels::canQuantize(DType::IQ2_XXS));
    for (const DType type : searchedTypes)
        QVERIFY(kernels::canQuantize(type));
    std::byte target[64];
    QVERIFY_EXCEPTION_THROWN(kernels::quantizeRow(DType::IQ1_S, values.data(), 256, nullptr, target), kernels::Error);
    QVERIFY_EXCEPTION_THROWN(kernels::quantizeRow(DType::Q4_0, values.data(), 40, nullptr, target), kernels::Error);
}

void TestQuantize::ranges()
{
    QVERIFY(kernels::largestMagnitude(DType::F16) == 65504.0F);
    QVERIFY(kernels::largestMagnitude(DType::BF16) > 3e38F);
    for (const DType type : searchedTypes) {
        std::vector<float> block(256, 1.0F);
        block[9] = kernels::largestMagnitude(type);
        for (const float value : expanded(type, quantized(type, block, 256), block.size()))
            QVERIFY2(std::isfinite(value), qPrintable(nameOf(type)));
    }
}

QTEST_GUILESS_MAIN(TestQuantize)
#include "tst_quantize.moc"
