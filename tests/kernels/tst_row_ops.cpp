// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/ops.h"
#include "tests/support/kernel_data.h"
#include "tests/support/tolerance.h"

#include <QTest>

#include <cmath>
#include <cstring>

using namespace kernels;

namespace {

constexpr float sentinel = -7.25e11F;

/// Columns [2, 2 + columns) of a wider matrix of random numbers; the rest is a sentinel value.
struct Slice {
    Slice(std::int64_t rows, std::int64_t columns, std::uint32_t seed)
        : columns(columns)
        , data(static_cast<std::size_t>(rows * (columns + 5)), sentinel)
    {
        const std::vector<float> values = kernel_data::randomFloats(static_cast<std::size_t>(rows * columns), seed);
        for (std::size_t i = 0; i < values.size(); ++i)
            data[i / static_cast<std::size_t>(columns) * static_cast<std::size_t>(columns + 5) + 2
                 + i % static_cast<std::size_t>(columns)] = values[i];
        all = makeView(data.data(), DType::F32, rows, columns + 5);
    }

    TensorView view() { return kernels::columns(all, 2, columns); }
    /// The slice as [rows, heads, columns / heads].
    TensorView heads(std::int64_t count)
    {
        TensorView view = makeView(data.data() + 2, DType::F32, all.shape[0], count, columns / count);
        view.strides[0] = columns + 5;
        return view;
    }
    bool bordersUnchanged() const
    {
        for (std::size_t i = 0; i < data.size(); ++i) {
            const auto column = static_cast<std::int64_t>(i) % (columns + 5);
            if ((column < 2 || column >= columns + 2) && data[i] != sentinel)
                return false;
        }
        return true;
    }

    std::int64_t columns;
    std::vector<float> data;
    TensorView all;
};

} // namespace

class TestRowOps : public QObject {
    Q_OBJECT

private slots:
    void norm_data();
    void norm();
    void activations_data() { levels(); }
    void activations();
    void layerNorm_data() { levels(); }
    void layerNorm();
    void scaleCapAndGatedAdd_data() { levels(); }
    void scaleCapAndGatedAdd();
    void add_data() { levels(); }
    void clamp_data() { levels(); }
    void clamp();
    void add();
    void rope_data();
    void rope();
    void kvStore_data();
    void kvStore();
    void gatherAndCopyBlock_data() { levels(); }
    void gatherAndCopyBlock();
    void threadsCanChange();

private:
    static void levels();
};

#define REQUIRE_LEVEL(level)                                                                                           \
    if (!kernel_data::hasLevel((level).toStdString()))                                                                 \
    QSKIP(qPrintable(QStringLiteral("this machine lacks the level %1").arg(level)))

void TestRowOps::levels()
{
    QTest::addColumn<QString>("level");
    for (const std::string &level : kernel_data::allLevels())
        QTest::newRow(level.c_str()) << QString::fromStdString(level);
}

void TestRowOps::norm_data()
{
    QTest::addColumn<QString>("level");
    QTest::addColumn<int>("rows");
    QTest::addColumn<int>("heads");
    QTest::addColumn<int>("n");
    QTest::addColumn<double>("scale");
    for (const std::string &level : kernel_data::allLevels()) {
        const QString name = QString::fromStdString(level);
        QTest::addRow("%s 576", level.c_str()) << name << 70 << 0 << 576 << 1.0;
        QTest::addRow("%s 1", level.c_str()) << name << 3 << 0 << 1 << 1.0;
        QTest::addRow("%s odd 131", level.c_str()) << name << 5 << 0 << 131 << 1.0;
        QTest::addRow("%s heads", level.c_str()) << name << 9 << 6 << 64 << 1.0;
        QTest::addRow("%s large numbers", level.c_str()) << name << 2 << 0 << 576 << 1e25;
        QTest::addRow("%s small numbers", level.c_str()) << name << 2 << 0 << 576 << 1e-25;
    }
}

void TestRowOps::norm()
{
    QFETCH(QString, level);
    QFETCH(int, rows);
    QFETCH(int, heads);
    QFETCH(int, n);
    QFETCH(double, scale);
    REQUIRE_LEVEL(level);
    const auto ops = kernel_data::cpu(level.toStdString(), 2);
    const auto truth = kernel_data::reference();
    const auto stream = ops->makeStream();
    const std::vector<float> weight = kernel_data::randomFloats(static_cast<std::size_t>(n), 1);
    const int width = n * std::max(1, heads);
    Slice x(rows, width, 2);
    for (float &value : x.data)
        value *= value == sentinel ? 1.0F : static_cast<float>(scale);
    Slice found(rows, width, 3);
    Slice wanted(rows, width, 3);
    const auto view = [&](Slice &slice) { return heads > 0 ? slice.heads(heads) : slice.view(); };
    ops->rmsNorm(view(x), weight.data(), 1e-5F, view(found), *stream);
    truth->rmsNorm(view(x), weight.data(), 1e-5F, view(wanted), *stream);
    QVERIFY(found.bordersUnchanged());
    QVERIFY(tolerance::nmse(found.data, wanted.data) <= tolerance::rowWise);
    QVERIFY(std::isfinite(found.data[2]));
    ops->rmsNorm(view(x), weight.data(), 1e-5F, view(x), *stream); // in place
    QVERIFY(std::memcmp(x.data.data(), found.data.data(), x.data.size() * sizeof(float)) == 0);
}

void TestRowOps::activations()
{
    QFETCH(QString, level);
    REQUIRE_LEVEL(level);
    const auto ops = kernel_data::cpu(level.toStdString(), 2);
    const auto truth = kernel_data::reference();
    const auto stream = ops->makeStream();
    for (const Activation activation :
         {Activation::Silu, Activation::GeluTanh, Activation::GeluErf, Activation::Relu}) {
        for (const int n : {1, 13, 576}) {
            Slice found(70, n, 11);
            for (float &value : found.data)
                value *= value == sentinel ? 1.0F : 9.0F;
            found.data[2] = std::nanf("");
            Slice wanted = found;
            wanted.all.data = reinterpret_cast<std::byte *>(wanted.data.data());
            ops->activate(activation, found.view(), *stream);
            truth->activate(activation, wanted.view(), *stream);
            QVERIFY(found.bordersUnchanged());
            QVERIFY(std::isnan(found.data[2]));
            QVERIFY(tolerance::nmse(found.data, wanted.data) <= tolerance::rowWise);
            QVERIFY(tolerance::largestDifference(found.data, wanted.data) < 4e-6);
        }
    }
    Slice row(1, 8, 1);
    QVERIFY_EXCEPTION_THROWN(ops->activate(Activation::SwigluClamped, row.view(), *stream), Error);
    QVERIFY_EXCEPTION_THROWN(truth->activate(Activation::SwigluClamped, row.view(), *stream), Error);
}

void TestRowOps::layerNorm()
{
    QFETCH(QString, level);
    REQUIRE_LEVEL(level);
    const auto ops = kernel_data::cpu(level.toStdString(), 2);
    const auto truth = kernel_data::reference();
    const auto stream = ops->makeStream();
    for (const int n : {1, 2, 131, 576}) {
        const std::vector<float> weight = kernel_data::randomFloats(static_cast<std::size_t>(n), 1);
        const std::vector<float> bias = kernel_data::randomFloats(static_cast<std::size_t>(n), 2);
        for (const bool plain : {false, true}) {
            Slice x(40, n, 3);
            for (float &value : x.data)
                value += value == sentinel ? 0.0F : 100.0F; // a mean far above the spread
            Slice found(40, n, 4);
            Slice wanted(40, n, 4);
            const float *w = plain ? nullptr : weight.data();
            const float *b = plain ? nullptr : bias.data();
            ops->layerNorm(x.view(), w, b, 1e-5F, found.view(), *stream);
            truth->layerNorm(x.view(), w, b, 1e-5F, wanted.view(), *stream);
            QVERIFY(found.bordersUnchanged());
            QVERIFY(tolerance::nmse(found.data, wanted.data) <= tolerance::rowWise);
            ops->layerNorm(x.view(), w, b, 1e-5F, x.view(), *stream); // in place
            QVERIFY(std::memcmp(x.data.data(), found.data.data(), x.data.size() * sizeof(float)) == 0);
            ops->rmsNorm(x.view(), nullptr, 1e-5F, found.view(), *stream);
            truth->rmsNorm(x.view(), nullptr, 1e-5F, wanted.view(), *stream);
            QVERIFY(tolerance::nmse(found.data, wanted.data) <= tolerance::rowWise);
        }
    }
}

void TestRowOps::scaleCapAndGatedAdd()
{
    QFETCH(QString, level);
    REQUIRE_LEVEL(level);
    const auto ops = kernel_data::cpu(level.toStdString(), 2);
    const auto truth = kernel_data::reference();
    const auto stream = ops->makeStream();
    for (const int n : {1, 13, 576}) {
        Slice x(40, n, 1);
        Slice gate(40, 1, 5);
        for (float &value : gate.data)
            value *= value == sentinel ? 1.0F : 8.0F;
        Slice found(40, n, 2);
        Slice wanted(40, n, 2);
        const auto run = [&](Ops &backend, Slice &inout) {
            backend.scale(inout.view(), 37.5F, *stream);
            backend.softCap(inout.view(), 30.0F, *stream);
            backend.gatedAdd(x.view(), gate.view(), inout.view(), *stream);
        };
        run(*ops, found);
        run(*truth, wanted);
        QVERIFY(found.bordersUnchanged());
        QVERIFY(tolerance::nmse(found.data, wanted.data) <= tolerance::rowWise);
        QVERIFY(tolerance::largestDifference(found.data, wanted.data) < 2e-5);
    }
}

/// Nothing but what lies beyond the limit changes, on any backend.
void TestRowOps::clamp()
{
    QFETCH(QString, level);
    REQUIRE_LEVEL(level);
    const auto ops = kernel_data::cpu(level.toStdString(), 2);
    const auto truth = kernel_data::reference();
    const auto stream = ops->makeStream();
    for (kernels::Ops *backend : {ops.get(), truth.get()}) {
        for (const int n : {1, 13, 576}) {
            Slice values(40, n, 2);
            const std::vector<float> before = values.data;
            backend->clamp(values.view(), 0.25F, *stream);
            QVERIFY(values.bordersUnchanged());
            int limited = 0;
            for (std::size_t i = 0; i < before.size(); ++i) {
                limited += before[i] != sentinel && values.data[i] != before[i] ? 1 : 0;
                QVERIFY(before[i] == sentinel
                        || values.data[i]
                            == (before[i] > 0.25F        ? 0.25F
                                    : before[i] < -0.25F ? -0.25F
                                                         : before[i]));
            }
            QVERIFY(limited > 0);
        }
    }
}

void TestRowOps::add()
{
    QFETCH(QString, level);
    REQUIRE_LEVEL(level);
    const auto ops = kernel_data::cpu(level.toStdString(), 2);
    const auto stream = ops->makeStream();
    for (const int n : {1, 13, 576}) {
        Slice x(40, n, 1);
        Slice sum(40, n, 2);
        const std::vector<float> before = sum.data;
        ops->add(x.view(), sum.view(), *stream);
        QVERIFY(sum.bordersUnchanged());
        for (std::size_t i = 0; i < before.size(); ++i)
            QVERIFY(before[i] == sentinel || sum.data[i] == before[i] + x.data[i]);
    }
}

void TestRowOps::rope_data()
{
    QTest::addColumn<QString>("level");
    QTest::addColumn<bool>("interleaved");
    QTest::addColumn<int>("rotaryDim");
    for (const std::string &level : kernel_data::allLevels()) {
        for (const bool interleaved : {true, false}) {
            for (const int rotaryDim : {64, 20, 2}) {
                QTest::addRow("%s %s %d", level.c_str(), interleaved ? "interleaved" : "halves", rotaryDim)
                    << QString::fromStdString(level) << interleaved << rotaryDim;
            }
        }
    }
}

void TestRowOps::rope()
{
    QFETCH(QString, level);
    QFETCH(bool, interleaved);
    QFETCH(int, rotaryDim);
    REQUIRE_LEVEL(level);
    const auto ops = kernel_data::cpu(level.toStdString(), 2);
    const auto truth = kernel_data::reference();
    const auto stream = ops->makeStream();
    RopeTable table;
    table.rotaryDim = rotaryDim;
    table.interleaved = interleaved;
    for (int i = 0; i < rotaryDim / 2; ++i)
        table.inverseFrequencies.push_back(std::pow(10000.0, -2.0 * i / rotaryDim));
    // The same positions twice, then others, then another table: what is kept between calls must not be used wrongly.
    for (const int offset : {0, 0, 40000}) {
        for (const float factor : {1.0F, 1.2F}) {
            table.attentionFactor = factor;
            std::vector<int> positions;
            for (int t = 0; t < 33; ++t)
                positions.push_back(t * 3 + offset);
            Slice found(33, 5 * 64, 4);
            Slice wanted(33, 5 * 64, 4);
            ops->rope(found.heads(5), positions, table, *stream);
            truth->rope(wanted.heads(5), positions, table, *stream);
            QVERIFY(found.bordersUnchanged());
            QVERIFY(tolerance::nmse(found.data, wanted.data) <= tolerance::rowWise);
            QVERIFY(tolerance::largestDifference(found.data, wanted.data) < 1e-6);
        }
    }
}

void TestRowOps::kvStore_data()
{
    QTest::addColumn<QString>("level");
    QTest::addColumn<int>("kv");
    for (const std::string &level : kernel_data::allLevels()) {
        for (const DType kv : {DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::E4M3})
            QTest::addRow("%s %s", level.c_str(), std::string(info(kv).name).c_str())
                << QString::fromStdString(level) << static_cast<int>(kv);
    }
}

void TestRowOps::kvStore()
{
    QFETCH(QString, level);
    QFETCH(int, kv);
    REQUIRE_LEVEL(level);
    const auto ops = kernel_data::cpu(level.toStdString(), 2);
    const auto truth = kernel_data::reference();
    const auto stream = ops->makeStream();
    for (const int headDim : {64, 13, 80}) {
        Slice k(50, 3 * headDim, 5);
        Slice v(50, 3 * headDim, 6);
        k.data[3] = 70000.0F; // beyond fp16
        k.data[70] = 1e-4F;
        k.data[80] = std::numeric_limits<float>::infinity();
        k.data[200] = std::numeric_limits<float>::quiet_NaN();
        k.data[300] = 9e6F; // more than 127 x the largest half
        v.data[4] = 1e-7F;  // subnormal in fp16
        std::vector<int> places;
        for (int t = 0; t < 50; ++t)
            places.push_back((t * 7 + 3) % 64);
        const auto type = static_cast<DType>(kv);
        KvLayer layer{nullptr, type, DType::F16, 8, 3, 8, headDim, false}; // the types of keys and values may differ
        layer.blockStride = layer.blockBytes() + 40;                       // what lies between is another's
        std::vector<std::byte> found(8 * layer.blockStride, std::byte{0x5a});
        std::vector<std::byte> wanted = found;
        layer.data = found.data();
        ops->kvStore(k.heads(3), v.heads(3), layer, places, *stream);
        layer.data = wanted.data();
        truth->kvStore(k.heads(3), v.heads(3), layer, places, *stream);
        QVERIFY(found == wanted);
    }
}

void TestRowOps::gatherAndCopyBlock()
{
    QFETCH(QString, level);
    REQUIRE_LEVEL(level);
    const auto ops = kernel_data::cpu(level.toStdString(), 2);
    const auto stream = ops->makeStream();
    Slice x(9, 31, 7);
    Slice out(4, 31, 8);
    const std::vector<int> rows{8, 0, 3, 3};
    ops->gatherRows(x.view(), rows, out.view(), *stream);
    QVERIFY(out.bordersUnchanged());
    for (std::size_t r = 0; r < rows.size(); ++r)
        QVERIFY(
            std::memcmp(&out.data[r * 36 + 2], &x.data[static_cast<std::size_t>(rows[r]) * 36 + 2], 31 * sizeof(float))
            == 0);
    constexpr std::size_t block = 2 * 3 * 8 * 4 * 2;
    constexpr std::size_t stride = block + 24;
    std::vector<std::byte> layer(5 * stride);
    for (std::size_t i = 0; i < layer.size(); ++i)
        layer[i] = static_cast<std::byte>(i * 7 / 3);
    std::vector<std::byte> wanted = layer;
    std::copy_n(layer.begin() + 3 * stride, block, wanted.begin() + stride);
    ops->copyBlock({layer.data(), DType::F16, DType::F16, 5, 3, 8, 4, false, stride}, 3, 1, *stream);
    QVERIFY(layer == wanted);
}

void TestRowOps::threadsCanChange()
{
    const auto ops = kernel_data::cpu("auto", 1);
    const auto stream = ops->makeStream();
    const kernel_data::Weight weight = kernel_data::randomWeight(DType::Q8_0, 64, 64, 1);
    const WeightPart part = weight.part();
    const auto packed = ops->pack({&part, 1});
    std::vector<float> x = kernel_data::randomFloats(10 * 64, 2);
    std::vector<float> first;
    for (const int threads : {1, 4, 2}) {
        ops->setThreads(threads);
        QCOMPARE(ops->threads(), threads);
        std::vector<float> out(10 * 64);
        ops->linear(*packed, makeView(x.data(), DType::F32, 10, 64), makeView(out.data(), DType::F32, 10, 64), nullptr,
                    *stream);
        first = first.empty() ? out : first;
        QVERIFY(std::memcmp(out.data(), first.data(), out.size() * sizeof(float)) == 0);
    }
    QVERIFY(!ops->keepsSource());
    QVERIFY(ops->allocate(100)->bytes() == 100);
}

QTEST_GUILESS_MAIN(TestRowOps)
#include "tst_row_ops.moc"
