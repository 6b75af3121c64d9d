// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/dtype.h"
#include "kernels/error.h"
#include "tests/support/shared_data.h"

#include <QElapsedTimer>
#include <QTest>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

using kernels::DType;

namespace {

constexpr DType goldenTypes[] = {DType::F16,     DType::BF16,  DType::Q4_0,    DType::Q4_1,   DType::Q5_0,
                                 DType::Q5_1,    DType::Q8_0,  DType::Q2_K,    DType::Q3_K,   DType::Q4_K,
                                 DType::Q5_K,    DType::Q6_K,  DType::IQ4_NL,  DType::IQ4_XS, DType::MXFP4,
                                 DType::IQ1_S,   DType::IQ1_M, DType::IQ2_XXS, DType::IQ2_XS, DType::IQ2_S,
                                 DType::IQ3_XXS, DType::IQ3_S, DType::TQ1_0,   DType::TQ2_0,  DType::NVFP4};

QString nameOf(DType type)
{
    const auto name = kernels::info(type).name;
    return QString::fromLatin1(name.data(), static_cast<int>(name.size()));
}

QByteArray goldenBlocks(DType type)
{
    return shared_data::read(shared_data::data("gguf_dequant/" + nameOf(type) + ".bin"));
}

/// Expands the blocks that begin `skip` bytes into `bytes`.
std::vector<float> expand(DType type, const QByteArray &bytes, qsizetype skip = 0)
{
    const auto &layout = kernels::info(type);
    std::vector<float> values(
        static_cast<std::size_t>((bytes.size() - skip) / layout.blockBytes * layout.blockElements));
    kernels::dequantize(type, reinterpret_cast<const std::byte *>(bytes.constData() + skip), values.data(),
                        static_cast<std::int64_t>(values.size()));
    return values;
}

std::uint32_t bitsOf(float value)
{
    return std::bit_cast<std::uint32_t>(value);
}

/// The value of a finite half by its definition.
double halfByDefinition(std::uint32_t half)
{
    const int exponent = static_cast<int>(half >> 10 & 31U);
    const double mantissa = half & 1023U;
    const double sign = (half & 0x8000U) != 0 ? -1 : 1;
    if (exponent == 0)
        return sign * std::ldexp(mantissa, -24);
    return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

std::uint32_t toHalf(float value)
{
    return kernels::floatToHalf(value);
}

} // namespace

class TstDequantize : public QObject {
    Q_OBJECT

private slots:
    void goldens_data();
    void goldens();
    void unalignedSource();
    void layouts();
    void halvesByDefinition();
    void halfRoundsToNearestEven();
    void bf16RoundTrip();
    void exoticFloats();
    void refusesBadRequests();
    void speed_data();
    void speed();
};

void TstDequantize::goldens_data()
{
    QTest::addColumn<DType>("type");
    for (const DType type : goldenTypes)
        QTest::addRow("%s", qPrintable(nameOf(type))) << type;
}

void TstDequantize::goldens()
{
    QFETCH(DType, type);
    const QByteArray expected = shared_data::read(shared_data::data("gguf_dequant/" + nameOf(type) + ".f32"));
    QVERIFY(!expected.isEmpty());
    const std::vector<float> values = expand(type, goldenBlocks(type));
    QCOMPARE(static_cast<qsizetype>(values.size() * sizeof(float)), expected.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
        std::uint32_t wanted = 0;
        std::memcpy(&wanted, expected.constData() + i * sizeof wanted, sizeof wanted);
        if (bitsOf(values[i]) != wanted)
            QFAIL(qPrintable(
                QString("value %1 is %2, wanted %3").arg(i).arg(values[i]).arg(std::bit_cast<float>(wanted))));
    }
}

void TstDequantize::unalignedSource()
{
    for (const DType type : goldenTypes) {
        const QByteArray blocks = goldenBlocks(type);
        const std::vector<float> aligned = expand(type, blocks);
        const std::vector<float> shifted = expand(type, "x" + blocks, 1);
        QCOMPARE(shifted.size(), aligned.size());
        QVERIFY2(std::memcmp(shifted.data(), aligned.data(), aligned.size() * sizeof(float)) == 0,
                 qPrintable(nameOf(type)));
    }
}

void TstDequantize::layouts()
{
    QCOMPARE(kernels::rowBytes(DType::Q4_1, 576), std::size_t{360});
    QCOMPARE(kernels::rowBytes(DType::Q6_K, 512), std::size_t{420});
    QCOMPARE(kernels::rowBytes(DType::F32, 3), std::size_t{12});
    QCOMPARE(kernels::rowBytes(DType::MXFP4, 0), std::size_t{0});
    QCOMPARE(nameOf(DType::IQ4_XS), QString("IQ4_XS"));
    QVERIFY(kernels::info(DType::Q8_0).quantized && !kernels::info(DType::BF16).quantized);
}

void TstDequantize::halvesByDefinition()
{
    for (std::uint32_t half = 0; half <= 0xffffU; ++half) {
        const float value = kernels::halfToFloat(static_cast<std::uint16_t>(half));
        QCOMPARE(bitsOf(value) >> 31, half >> 15);
        const bool special = (half & 0x7c00U) == 0x7c00U;
        if (special && (half & 0x3ffU) != 0) {
            QVERIFY(std::isnan(value));
            QCOMPARE(toHalf(value) & 0x7e00U, 0x7e00U);
            continue;
        }
        if (special)
            QVERIFY(std::isinf(value));
        else
            QCOMPARE(static_cast<double>(value), halfByDefinition(half));
        QCOMPARE(toHalf(value), half);
    }
}

void TstDequantize::halfRoundsToNearestEven()
{
    // Around the middle of every pair of neighbouring halves.
    for (std::uint32_t half = 0; half < 0x7c00U; ++half) {
        const double low = halfByDefinition(half);
        const double high = half == 0x7bffU ? 65536.0 : halfByDefinition(half + 1);
        const auto middle = static_cast<float>((low + high) / 2); // exact: one bit more than a half has
        const std::uint32_t even = (half & 1U) != 0 ? half + 1 : half;
        QCOMPARE(toHalf(middle), even);
        QCOMPARE(toHalf(std::nextafter(middle, 0.0F)), half);
        QCOMPARE(toHalf(std::nextafter(middle, 1e9F)), half + 1);
        QCOMPARE(toHalf(-middle), even | 0x8000U);
    }
}

void TstDequantize::bf16RoundTrip()
{
    for (std::uint32_t value = 0; value <= 0xffffU; ++value) {
        const float number = kernels::bf16ToFloat(static_cast<std::uint16_t>(value));
        QCOMPARE(bitsOf(number), value << 16);
        if (std::isnan(number))
            QVERIFY(std::isnan(kernels::bf16ToFloat(kernels::floatToBf16(number))));
        else
            QCOMPARE(static_cast<std::uint32_t>(kernels::floatToBf16(number)), value);
    }
    QCOMPARE(kernels::floatToBf16(std::bit_cast<float>(0x3f808000U)), std::uint16_t{0x3f80}); // ties go to even
    QCOMPARE(kernels::floatToBf16(std::bit_cast<float>(0x3f818000U)), std::uint16_t{0x3f82});
    QCOMPARE(kernels::floatToBf16(std::bit_cast<float>(0x3f808001U)), std::uint16_t{0x3f81});
    QCOMPARE(kernels::floatToBf16(std::numeric_limits<float>::max()), std::uint16_t{0x7f80}); // rounds to infinity
}

void TstDequantize::exoticFloats()
{
    QCOMPARE(toHalf(1e10F), 0x7c00U);
    QCOMPARE(toHalf(-std::numeric_limits<float>::infinity()), 0xfc00U);
    QCOMPARE(toHalf(1e-30F), 0U);
    QCOMPARE(toHalf(-std::numeric_limits<float>::denorm_min()), 0x8000U);
    // A NaN whose payload lies only in the lowest bits must not become an infinity.
    QVERIFY((toHalf(std::bit_cast<float>(0x7f800001U)) & 0x3ffU) != 0);
    QVERIFY((kernels::floatToBf16(std::bit_cast<float>(0x7f800001U)) & 0x7fU) != 0);
}

void TstDequantize::refusesBadRequests()
{
    QVERIFY_EXCEPTION_THROWN((void)kernels::rowBytes(DType::Q4_0, 33), kernels::Error);
    QVERIFY_EXCEPTION_THROWN((void)kernels::rowBytes(DType::F32, -1), kernels::Error);
    const std::byte source[8] = {};
    float target[8] = {};
    QVERIFY_EXCEPTION_THROWN(kernels::dequantize(DType::I32, source, target, 2), kernels::Error);
    kernels::dequantize(DType::Q4_K, source, target, 0);
    QCOMPARE(target[0], 0.0F);
}

void TstDequantize::speed_data()
{
    goldens_data();
}

/// Reports the rate; the machine decides what is fast, so nothing is required of it here.
void TstDequantize::speed()
{
    QFETCH(DType, type);
    constexpr std::int64_t elements = 1 << 20;
    const std::vector<std::byte> source(kernels::rowBytes(type, elements), std::byte{0x3c});
    std::vector<float> target(elements);
    QElapsedTimer timer;
    qint64 best = std::numeric_limits<qint64>::max();
    for (int round = 0; round < 5; ++round) {
        timer.start();
        kernels::dequantize(type, source.data(), target.data(), elements);
        best = std::min(best, timer.nsecsElapsed());
    }
    qInfo("%s: %.2f G values/s", qPrintable(nameOf(type)), static_cast<double>(elements) / static_cast<double>(best));
    QVERIFY(std::isfinite(target[elements - 1]));
}

QTEST_GUILESS_MAIN(TstDequantize)
#include "tst_dequantize.moc"
