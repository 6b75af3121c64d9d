// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/level_check.h"
#include "kernels/ops.h"
#include "tests/support/emulated_tiles.h"
#include "tests/support/float_view.h"
#include "tests/support/kernel_data.h"
#include "tests/support/shared_data.h"
#include "tests/support/tolerance.h"

#include <QTest>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace kernels;
using kernel_data::viewOf;
using kernel_data::Weight;

Q_DECLARE_METATYPE(kernels::DType)

namespace {

constexpr float sentinel = -7.25e11F;

/// A matrix in the middle of a larger one full of a sentinel value.
struct Guarded {
    Guarded(std::int64_t rows, std::int64_t columns, float inside = sentinel)
        : rows(rows)
        , columns(columns)
        , stride(columns + 5)
        , data(static_cast<std::size_t>((rows + 2) * stride), sentinel)
    {
        for (std::int64_t r = 0; r < rows; ++r) {
            for (std::int64_t c = 0; c < columns; ++c)
                at(r, c) = inside;
        }
    }

    float &at(std::int64_t row, std::int64_t column)
    {
        return data[static_cast<std::size_t>((row + 1) * stride + column + 2)];
    }

    TensorView view()
    {
        TensorView view = makeView(&at(0, 0), DType::F32, rows, columns);
        view.strides[0] = stride;
        return view;
    }

    std::vector<float> values()
    {
        std::vector<float> list;
        for (std::int64_t r = 0; r < rows; ++r)
            list.insert(list.end(), &at(r, 0), &at(r, 0) + columns);
        return list;
    }

    bool bordersUnchanged()
    {
        std::int64_t changed = 0;
        for (std::size_t i = 0; i < data.size(); ++i) {
            const std::int64_t row = static_cast<std::int64_t>(i) / stride - 1;
            const std::int64_t column = static_cast<std::int64_t>(i) % stride - 2;
            const bool inside = row >= 0 && row < rows && column >= 0 && column < columns;
            changed += !inside && data[i] != sentinel;
        }
        return changed == 0;
    }

    std::int64_t rows;
    std::int64_t columns;
    std::int64_t stride;
    std::vector<float> data;
};

std::vector<float> linear(Ops &ops, const Weight &weight, std::vector<float> x, std::int64_t tokens)
{
    const auto stream = ops.makeStream();
    const WeightPart part = weight.part();
    const auto packed = ops.pack({&part, 1});
    std::vector<float> out(static_cast<std::size_t>(tokens * weight.rows));
    ops.linear(*packed, viewOf(x, tokens, weight.columns), viewOf(out, tokens, weight.rows), nullptr, *stream);
    return out;
}

/// Each block of 32 as int8 with one scale, and back.
std::vector<float> roundedOnce(std::vector<float> x)
{
    for (std::size_t block = 0; block < x.size(); block += 32) {
        float largest = 0.0F;
        for (std::size_t i = block; i < block + 32; ++i)
            largest = std::max(largest, std::fabs(x[i]));
        for (std::size_t i = block; i < block + 32; ++i)
            x[i] = std::nearbyint(x[i] * (127.0F / largest)) * (largest / 127.0F);
    }
    return x;
}

bool sameBits(const std::vector<float> &a, const std::vector<float> &b)
{
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Columns that a type allows: whole blocks, odd numbers for floats.
std::vector<std::int64_t> columnsOf(DType type)
{
    switch (info(type).blockElements) {
    case 1:
        return {1, 37, 576, 1100};
    case 32:
        return {32, 96, 576, 2144};
    case 64:
        return {64, 192, 576, 2112};
    default:
        return {256, 2560};
    }
}

void addLevelTypeRows()
{
    QTest::addColumn<QString>("level");
    QTest::addColumn<DType>("type");
    std::vector<std::string> levels = kernel_data::allLevels();
    levels.push_back(kernel_data::emulatedAmx);
    // Few cases are every fourth row, other ones of each function: several see each pair.
    static unsigned functions = 0;
    unsigned count = ++functions;
    for (const std::string &level : levels) {
        for (const DType type : kernel_data::weightTypes()) {
            if (++count % 4 != 0 && shared_data::fewCases())
                continue;
            QTest::addRow("%s %s", level.c_str(), std::string(info(type).name).c_str())
                << QString::fromStdString(level) << type;
        }
    }
}

} // namespace

class TestMatmul : public QObject {
    Q_OBJECT

private slots:
    void linearMatchesReference_data() { addLevelTypeRows(); }
    void linearMatchesReference();
    void roundedActivations_data() { addLevelTypeRows(); }
    void roundedActivations();
    void outliers_data() { addLevelTypeRows(); }
    void outliers();
    void rowsDoNotDependOnBatchOrThreads_data() { addLevelTypeRows(); }
    void rowsDoNotDependOnBatchOrThreads();
    void levelsAgree_data() { addLevelTypeRows(); }
    void levelsAgree();
    void extremeScales_data() { addLevelTypeRows(); }
    void extremeScales();
    void addAndGated_data() { addLevelTypeRows(); }
    void addAndGated();
    void embedEqualsDequantize_data() { addLevelTypeRows(); }
    void embedEqualsDequantize();
    void mixedParts_data();
    void mixedParts();
    void notANumberStaysInItsRow_data() { addLevelTypeRows(); }
    void notANumberStaysInItsRow();
    void columnOrders_data() { mixedParts_data(); }
    void columnOrders();
    void bfloatWhereAllowed_data();
    void bfloatWhereAllowed();
    void tilesAreReleased();
    void packedRowsAreTold();
    void wrongShapesAreRefused();
};

#define REQUIRE_LEVEL(level)                                                                                           \
    if (!kernel_data::hasLevel((level).toStdString()))                                                                 \
    QSKIP(qPrintable(QStringLiteral("this machine lacks the level %1").arg(level)))

void TestMatmul::linearMatchesReference()
{
    QFETCH(QString, level);
    QFETCH(DType, type);
    REQUIRE_LEVEL(level);
    const auto ops = kernel_data::cpu(level.toStdString(), 2);
    const auto truth = kernel_data::reference();
    const auto stream = ops->makeStream();
    for (const std::int64_t columns : columnsOf(type)) {
        for (const std::int64_t rows : {1, 16, 53}) {
            const Weight weight =
                kernel_data::randomWeight(type, rows, columns, static_cast<std::uint32_t>(rows + columns));
            const WeightPart part = weight.part();
            const auto packed = ops->pack({&part, 1});
            const auto plain = truth->pack({&part, 1});
            std::vector<float> bias = kernel_data::randomFloats(static_cast<std::size_t>(rows), 3);
            for (const std::int64_t tokens : {1, 2, 3, 6, 33, 135}) {
                std::vector<float> x = kernel_data::exactActivations(tokens, columns, 12); // no sum cancels nearly
                Guarded out(tokens, rows);
                std::vector<float> wanted(static_cast<std::size_t>(tokens * rows));
                const float *usedBias = tokens % 2 == 0 ? bias.data() : nullptr;
                ops->linear(*packed, viewOf(x, tokens, columns), out.view(), usedBias, *stream);
                truth->linear(*plain, viewOf(x, tokens, columns), viewOf(wanted, tokens, rows), usedBias, *stream);
                const double error = tolerance::nmse(out.values(), wanted);
                QVERIFY2(
                    error <= tolerance::exactActivations,
                    qPrintable(
                        QStringLiteral("[%1, %2] x %3 tokens: NMSE %4").arg(rows).arg(columns).arg(tokens).arg(error)));
                QVERIFY(out.bordersUnchanged());
            }
        }
    }
}

void TestMatmul::roundedActivations()
{
    QFETCH(QString, level);
    QFETCH(DType, type);
    REQUIRE_LEVEL(level);
    const Weight weight = kernel_data::randomWeight(type, 200, 1536, 11);
    const std::vector<float> x = kernel_data::randomFloats(7 * 1536, 12);
    const std::vector<float> found = linear(*kernel_data::cpu(level.toStdString(), 2), weight, x, 7);
    const std::vector<float> wanted = linear(*kernel_data::reference(), weight, x, 7);
    const double error = tolerance::nmse(found, wanted);
    QVERIFY2(error <= tolerance::product(type), qPrintable(QString::number(error)));
}

/// A fifth of the blocks holds a number far above the others, anywhere in it: nothing of its rounding error must be
/// left.
void TestMatmul::outliers()
{
    QFETCH(QString, level);
    QFETCH(DType, type);
    REQUIRE_LEVEL(level);
    constexpr std::int64_t columns = 1280;
    const Weight weight = kernel_data::randomWeight(type, 100, columns, 13);
    const auto truth = kernel_data::reference();
    for (const std::int64_t tokens : {1, 37}) {
        std::vector<float> x = kernel_data::randomFloats(static_cast<std::size_t>(tokens * columns), 14);
        for (std::int64_t token = 0; token < tokens; ++token) {
            for (int i = 0; i < columns / 32 / 5; ++i)
                x[static_cast<std::size_t>(token * columns + (token + 5 * i) % (columns / 32) * 32
                                           + (7 + 3 * i) % 32)] = i % 2 == 0 ? 60.0F : -60.0F;
        }
        const std::vector<float> wanted = linear(*truth, weight, x, tokens);
        const double once = tolerance::nmse(linear(*truth, weight, roundedOnce(x), tokens), wanted);
        const double error =
            tolerance::nmse(linear(*kernel_data::cpu(level.toStdString(), 2), weight, x, tokens), wanted);
        QVERIFY2(once > 0 && error < once / 100, qPrintable(QStringLiteral("%1, once %2").arg(error).arg(once)));
    }
}

void TestMatmul::rowsDoNotDependOnBatchOrThreads()
{
    QFETCH(QString, level);
    QFETCH(DType, type);
    REQUIRE_LEVEL(level);
    constexpr std::int64_t mostTokens = 130;
    constexpr std::int64_t rows = 40;
    const std::int64_t columns = level == QStringLiteral("scalar") ? columnsOf(type)[1] : columnsOf(type).back();
    const Weight weight = kernel_data::randomWeight(type, rows, columns, 21);
    const std::vector<float> x = kernel_data::randomFloats(static_cast<std::size_t>(mostTokens * columns), 22);
    const auto alone = kernel_data::cpu(level.toStdString(), 1);
    std::vector<float> wanted;
    const WeightPart part = weight.part();
    const auto packed = alone->pack({&part, 1});
    const auto stream = alone->makeStream();
    for (std::int64_t token = 0; token < mostTokens; ++token) {
        std::vector<float> row(x.begin() + token * columns, x.begin() + (token + 1) * columns);
        std::vector<float> out(rows);
        alone->linear(*packed, viewOf(row, 1, columns), viewOf(out, 1, rows), nullptr, *stream);
        wanted.insert(wanted.end(), out.begin(), out.end());
    }
    for (const int threads : {1, 2, 5}) {
        const auto ops = kernel_data::cpu(level.toStdString(), threads);
        for (const std::int64_t tokens : {2, 3, 4, 5, 7, 8, 31, 32, 67, 130}) {
            const std::vector<float> part(x.begin(), x.begin() + tokens * columns);
            const std::vector<float> found = linear(*ops, weight, part, tokens);
            QVERIFY2(sameBits(found, {wanted.begin(), wanted.begin() + tokens * rows}),
                     qPrintable(QStringLiteral("%1 tokens, %2 threads").arg(tokens).arg(threads)));
        }
    }
}

void TestMatmul::levelsAgree()
{
    QFETCH(QString, level);
    QFETCH(DType, type);
    REQUIRE_LEVEL(level);
    const std::int64_t columns = columnsOf(type).back();
    const Weight weight = kernel_data::randomWeight(type, 40, columns, 31);
    const std::vector<float> x = kernel_data::randomFloats(static_cast<std::size_t>(9 * columns), 32);
    QVERIFY(sameBits(linear(*kernel_data::cpu(level.toStdString(), 2), weight, x, 9),
                     linear(*kernel_data::cpu("scalar", 2), weight, x, 9)));
}

void TestMatmul::extremeScales()
{
    QFETCH(QString, level);
    QFETCH(DType, type);
    REQUIRE_LEVEL(level);
    const auto ops = kernel_data::cpu(level.toStdString(), 2);
    const auto truth = kernel_data::reference();
    for (const auto scales : {kernel_data::Scales::Tiny, kernel_data::Scales::Huge}) {
        const Weight weight = kernel_data::randomWeight(type, 33, 512, 41, scales);
        for (const std::int64_t tokens : {1, 40}) {
            const std::vector<float> x = kernel_data::exactActivations(tokens, 512, 42);
            const double error = tolerance::nmse(linear(*ops, weight, x, tokens), linear(*truth, weight, x, tokens));
            QVERIFY2(error <= tolerance::exactActivations, qPrintable(QString::number(error)));
        }
    }
}

void TestMatmul::addAndGated()
{
    QFETCH(QString, level);
    QFETCH(DType, type);
    REQUIRE_LEVEL(level);
    constexpr std::int64_t columns = 512;
    constexpr std::int64_t rows = 37;
    const auto ops = kernel_data::cpu(level.toStdString(), 2);
    const auto truth = kernel_data::reference();
    const auto stream = ops->makeStream();
    const Weight gate = kernel_data::randomWeight(type, rows, columns, 51);
    const Weight up = kernel_data::randomWeight(type, rows, columns, 52);
    const std::vector<WeightPart> parts{gate.part("gate"), up.part("up")};
    const auto packed = ops->pack(parts);
    const auto plain = truth->pack(parts);
    for (const std::int64_t tokens : {1, 5, 130}) {
        std::vector<float> x = kernel_data::exactActivations(tokens, columns, 53);
        const std::vector<float> bias = kernel_data::randomFloats(2 * rows, 54);
        for (const Activation activation : {Activation::Silu, Activation::GeluTanh, Activation::GeluErf,
                                            Activation::Relu, Activation::SwigluClamped}) {
            Guarded out(tokens, rows);
            std::vector<float> wanted(static_cast<std::size_t>(tokens * rows));
            ops->linearGated(*packed, activation, viewOf(x, tokens, columns), out.view(), bias.data(), *stream);
            truth->linearGated(*plain, activation, viewOf(x, tokens, columns), viewOf(wanted, tokens, rows),
                               bias.data(), *stream);
            const double error = tolerance::nmse(out.values(), wanted);
            QVERIFY2(error <= tolerance::exactActivations, qPrintable(QString::number(error)));
            QVERIFY(out.bordersUnchanged());
        }
        Guarded sum(tokens, 2 * rows, 1.5F);
        std::vector<float> wanted(static_cast<std::size_t>(tokens * 2 * rows), 1.5F);
        ops->linearAdd(*packed, viewOf(x, tokens, columns), sum.view(), bias.data(), *stream);
        truth->linearAdd(*plain, viewOf(x, tokens, columns), viewOf(wanted, tokens, 2 * rows), bias.data(), *stream);
        QVERIFY(tolerance::nmse(sum.values(), wanted) <= tolerance::exactActivations);
        QVERIFY(sum.bordersUnchanged());
    }
}

void TestMatmul::embedEqualsDequantize()
{
    QFETCH(QString, level);
    QFETCH(DType, type);
    REQUIRE_LEVEL(level);
    const auto ops = kernel_data::cpu(level.toStdString(), 2);
    const auto stream = ops->makeStream();
    for (const auto scales : {kernel_data::Scales::Usual, kernel_data::Scales::Tiny, kernel_data::Scales::Huge}) {
        const std::int64_t columns = columnsOf(type).back();
        const Weight table = kernel_data::randomWeight(type, 35, columns, 61, scales);
        const std::vector<float> all = table.expanded();
        const WeightPart part = table.part();
        const auto packed = ops->pack({&part, 1});
        const std::vector<int> ids{34, 0, 16, 15, 0};
        Guarded out(5, columns);
        ops->embed(*packed, ids, out.view(), *stream);
        std::vector<float> wanted;
        for (const int id : ids)
            wanted.insert(wanted.end(), all.begin() + id * columns, all.begin() + (id + 1) * columns);
        QVERIFY(sameBits(out.values(), wanted));
        QVERIFY(out.bordersUnchanged());
    }
}

void TestMatmul::mixedParts_data()
{
    QTest::addColumn<QString>("level");
    for (const std::string &level : kernel_data::allLevels())
        QTest::newRow(level.c_str()) << QString::fromStdString(level);
}

void TestMatmul::mixedParts()
{
    QFETCH(QString, level);
    REQUIRE_LEVEL(level);
    const auto ops = kernel_data::cpu(level.toStdString(), 2);
    const auto truth = kernel_data::reference();
    const auto stream = ops->makeStream();
    const std::vector<Weight> weights{
        kernel_data::randomWeight(DType::Q4_K, 30, 256, 71), kernel_data::randomWeight(DType::F16, 7, 256, 72),
        kernel_data::randomWeight(DType::Q6_K, 19, 256, 73), kernel_data::randomWeight(DType::Q8_0, 16, 256, 74)};
    std::vector<WeightPart> parts;
    for (const Weight &weight : weights)
        parts.push_back(weight.part());
    const auto packed = ops->pack(parts);
    const auto plain = truth->pack(parts);
    QCOMPARE(packed->rows(), 72);
    QCOMPARE(packed->partRows(), plain->partRows());
    for (const std::int64_t tokens : {1, 70}) {
        std::vector<float> x = kernel_data::exactActivations(tokens, 256, 75);
        Guarded out(tokens, 72);
        std::vector<float> wanted(static_cast<std::size_t>(tokens * 72));
        ops->linear(*packed, viewOf(x, tokens, 256), out.view(), nullptr, *stream);
        truth->linear(*plain, viewOf(x, tokens, 256), viewOf(wanted, tokens, 72), nullptr, *stream);
        QVERIFY(tolerance::nmse(out.values(), wanted) <= tolerance::exactActivations);
        QVERIFY(out.bordersUnchanged());
    }
}

void TestMatmul::notANumberStaysInItsRow()
{
    QFETCH(QString, level);
    QFETCH(DType, type);
    REQUIRE_LEVEL(level);
    const auto ops = kernel_data::cpu(level.toStdString(), 2);
    const Weight weight = kernel_data::randomWeight(type, 20, 256, 81);
    const std::vector<float> x = kernel_data::randomFloats(3 * 256, 82);
    const std::vector<float> clean = linear(*ops, weight, x, 3);
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        std::vector<float> broken = x;
        broken[256 + 100] = bad;
        const std::vector<float> found = linear(*ops, weight, broken, 3);
        QVERIFY(sameBits({found.begin(), found.begin() + 20}, {clean.begin(), clean.begin() + 20}));
        QVERIFY(sameBits({found.begin() + 40, found.end()}, {clean.begin() + 40, clean.end()}));
        for (std::size_t i = 20; i < 40; ++i)
            QVERIFY(!std::isfinite(found[i]));
    }
    std::vector<float> tiny(256, 1e-40F); // subnormal activations must not become NaN
    for (const float value : linear(*ops, weight, tiny, 1))
        QVERIFY(std::isfinite(value));
}

/// Parts with orders of their own, shared ones and none, of integer and float types.
void TestMatmul::columnOrders()
{
    QFETCH(QString, level);
    REQUIRE_LEVEL(level);
    constexpr std::int64_t columns = 96;
    const auto ops = kernel_data::cpu(level.toStdString(), 2);
    const auto truth = kernel_data::reference();
    const auto stream = ops->makeStream();
    std::vector<std::int32_t> stride(columns);
    std::vector<std::int32_t> back(columns);
    for (int k = 0; k < columns; ++k) {
        stride[static_cast<std::size_t>(k)] = static_cast<std::int32_t>(k * 35 % columns); // 35 and 96 share no factor
        back[static_cast<std::size_t>(k)] = static_cast<std::int32_t>(columns - 1 - k);
    }
    const std::vector<Weight> weights{kernel_data::randomWeight(DType::INT4, 16, columns, 101),
                                      kernel_data::randomWeight(DType::FP8, 7, columns, 102),
                                      kernel_data::randomWeight(DType::Q4_0, 20, columns, 103),
                                      kernel_data::randomWeight(DType::INT8, 29, columns, 104)};
    std::vector<WeightPart> parts;
    for (const Weight &weight : weights)
        parts.push_back(weight.part());
    parts[0].columnOrder = stride.data();
    parts[1].columnOrder = back.data();
    parts[3].columnOrder = stride.data();
    const auto packed = ops->pack(parts);
    const auto plain = truth->pack(parts);
    // The truth is the matrix with its columns put in place.
    std::vector<float> expanded;
    for (const WeightPart &part : parts) {
        std::vector<float> stored(static_cast<std::size_t>(columns));
        std::vector<float> row(static_cast<std::size_t>(columns));
        for (std::int64_t r = 0; r < part.rows; ++r) {
            dequantize(part.type, part.data + static_cast<std::size_t>(r) * rowBytes(part.type, columns), stored.data(),
                       columns);
            for (std::size_t k = 0; k < stored.size(); ++k)
                row[part.columnOrder != nullptr ? static_cast<std::size_t>(part.columnOrder[k]) : k] = stored[k];
            expanded.insert(expanded.end(), row.begin(), row.end());
        }
    }
    const WeightPart floats{"floats", DType::F32, 72, columns, reinterpret_cast<const std::byte *>(expanded.data())};
    const auto inPlace = truth->pack({&floats, 1});
    for (const std::int64_t tokens : {1, 70, 130}) {
        std::vector<float> x = kernel_data::randomFloats(static_cast<std::size_t>(tokens * columns), 105);
        std::vector<float> wanted(static_cast<std::size_t>(tokens * 72));
        std::vector<float> reference(wanted.size());
        Guarded out(tokens, 72);
        truth->linear(*inPlace, viewOf(x, tokens, columns), viewOf(wanted, tokens, 72), nullptr, *stream);
        truth->linear(*plain, viewOf(x, tokens, columns), viewOf(reference, tokens, 72), nullptr, *stream);
        ops->linear(*packed, viewOf(x, tokens, columns), out.view(), nullptr, *stream);
        QVERIFY(tolerance::nmse(reference, wanted) < 1e-12);
        QVERIFY(tolerance::nmse(out.values(), wanted) <= tolerance::product(DType::INT4));
        QVERIFY(out.bordersUnchanged());
    }
    std::vector<float> found(72 * columns);
    std::vector<int> ids;
    for (int i = 0; i < 72; ++i)
        ids.push_back(i);
    ops->embed(*packed, ids, viewOf(found, 72, columns), *stream);
    QVERIFY(sameBits(found, expanded));
}

void TestMatmul::bfloatWhereAllowed_data()
{
    QTest::addColumn<DType>("type");
    for (const DType type : {DType::F32, DType::F16, DType::BF16, DType::Q4_0, DType::Q6_K})
        QTest::addRow("%s", std::string(info(type).name).c_str()) << type;
}

/// Few rows keep their bits; many stay close, whatever was measured to be faster.
void TestMatmul::bfloatWhereAllowed()
{
    QFETCH(DType, type);
    REQUIRE_LEVEL(QStringLiteral("avx512"));
    if (!hasBfloatProducts())
        QSKIP("this machine lacks products in bfloat16");
    constexpr std::int64_t columns = 512;
    const auto ops = makeOps({.threads = 2, .deterministic = false});
    const auto plain = kernel_data::cpu("auto", 2);
    const Weight weight = kernel_data::randomWeight(type, 100, columns, 71);
    for (const std::int64_t tokens : {5, 15, 16, 133}) {
        const std::vector<float> x = kernel_data::randomFloats(static_cast<std::size_t>(tokens * columns), 72);
        const std::vector<float> found = linear(*ops, weight, x, tokens);
        const std::vector<float> wanted = linear(*plain, weight, x, tokens);
        if (tokens < 16 || ops->deterministic())
            QVERIFY(sameBits(found, wanted));
        const double error = tolerance::nmse(found, wanted);
        QVERIFY2(error < (info(type).quantized ? tolerance::product(type) : 0) + 1e-5,
                 qPrintable(QString::number(error)));
    }
    QVERIFY(plain->deterministic());
}

/// A thread that held tiles after its products would make every switch to another one dear.
void TestMatmul::tilesAreReleased()
{
    REQUIRE_LEVEL(QString::fromStdString(kernel_data::emulatedAmx));
    const auto ops = kernel_data::cpu(kernel_data::emulatedAmx, 1);
    const Weight weight = kernel_data::randomWeight(DType::Q8_0, 20, 64, 1);
    (void)linear(*ops, weight, kernel_data::randomFloats(33 * 64, 2), 33);
    QVERIFY(emulated_tiles::released());
}

/// A large matrix is packed in stretches, so that the source of each can be given back.
void TestMatmul::packedRowsAreTold()
{
    const Weight weight = kernel_data::randomWeight(DType::F32, 4100, 1024, 3); // above 16 MiB
    const auto ops = kernel_data::cpu("auto", 2);
    std::vector<std::pair<std::int64_t, std::int64_t>> told;
    WeightPart part = weight.part();
    part.packed = [&told](std::int64_t first, std::int64_t count) { told.emplace_back(first, count); };
    const std::vector<float> x = kernel_data::randomFloats(1024, 4);
    const auto packed = ops->pack({&part, 1});
    QVERIFY(told.size() > 1);
    std::int64_t next = 0;
    for (const auto &[first, count] : told) {
        QCOMPARE(first, next);
        next += count;
    }
    QCOMPARE(next, std::int64_t{4100});
    std::vector<float> input = x;
    std::vector<float> found(4100);
    const auto stream = ops->makeStream();
    ops->linear(*packed, viewOf(input, 1, 1024), viewOf(found, 1, 4100), nullptr, *stream);
    QVERIFY(sameBits(found, linear(*ops, weight, x, 1)));
}

void TestMatmul::wrongShapesAreRefused()
{
    const auto ops = kernel_data::cpu("auto", 1);
    const auto stream = ops->makeStream();
    const Weight weight = kernel_data::randomWeight(DType::Q8_0, 16, 64, 91);
    const WeightPart part = weight.part();
    const auto packed = ops->pack({&part, 1});
    std::vector<float> x(64);
    std::vector<float> out(16);
    QVERIFY_EXCEPTION_THROWN(ops->linear(*packed, viewOf(x, 1, 32), viewOf(out, 1, 16), nullptr, *stream), Error);
    QVERIFY_EXCEPTION_THROWN(ops->linear(*packed, viewOf(x, 1, 64), viewOf(out, 1, 15), nullptr, *stream), Error);
    QVERIFY_EXCEPTION_THROWN(
        ops->linearGated(*packed, Activation::Silu, viewOf(x, 1, 64), viewOf(out, 1, 8), nullptr, *stream), Error);
    WeightPart uneven = part;
    uneven.columns = 40;
    QVERIFY_EXCEPTION_THROWN((void)ops->pack({&uneven, 1}), Error);
}

QTEST_GUILESS_MAIN(TestMatmul)
#include "tst_matmul.moc"
