// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/quantized_rig.h"

#include <QtTest>

#include <cmath>

using namespace quantized_rig;

namespace {

float e4m3(int byte)
{
    const int exponent = byte >> 3 & 15;
    const double size = exponent == 0 ? std::ldexp(byte & 7, -9) : std::ldexp(8 + (byte & 7), exponent - 10);
    return static_cast<float>((byte & 0x80) != 0 ? -size : size);
}

/// Every code but the two that are no numbers.
int code(std::int64_t row, std::int64_t k)
{
    const int byte = static_cast<int>((row * 37 + k * 11) % 256);
    return (byte & 0x7f) == 0x7f ? byte - 1 : byte;
}

std::vector<std::uint8_t> codes(std::int64_t height, std::int64_t width)
{
    std::vector<std::uint8_t> bytes;
    for (std::int64_t i = 0; i < height * width; ++i)
        bytes.push_back(static_cast<std::uint8_t>(code(i / width, i % width)));
    return bytes;
}

QuantizedScheme float8(std::int64_t blockRows = 0, std::int64_t blockColumns = 0, bool inverse = false)
{
    QuantizedScheme scheme;
    scheme.layout = Layout::Float8;
    scheme.bits = 8;
    scheme.blockRows = blockRows;
    scheme.blockColumns = blockColumns;
    scheme.inverseScales = inverse;
    return scheme;
}

constexpr float nf4[16] = {-1.0F,
                           -0.6961928009986877F,
                           -0.5250730514526367F,
                           -0.39491748809814453F,
                           -0.28444138169288635F,
                           -0.18477343022823334F,
                           -0.09105003625154495F,
                           0.0F,
                           0.07958029955625534F,
                           0.16093020141124725F,
                           0.24611230194568634F,
                           0.33791524171829224F,
                           0.44070982933044434F,
                           0.5626170039176941F,
                           0.7229568362236023F,
                           1.0F};

/// Pairs with the first of them above.
std::vector<std::uint8_t> nf4Bytes()
{
    std::vector<std::uint8_t> bytes;
    for (std::int64_t i = 0; i < rows * columns; i += 2)
        bytes.push_back(static_cast<std::uint8_t>(number(i / columns, i % columns, 4) << 4
                                                  | number((i + 1) / columns, (i + 1) % columns, 4)));
    return bytes;
}

/// A sign, two bits of exponent and one of mantissa, with the largest as 1.
constexpr float fp4[16] = {
    0.0F,  0.0625F / 12.0F,  8.0F / 12.0F,  12.0F / 12.0F,  4.0F / 12.0F,  6.0F / 12.0F,  2.0F / 12.0F,  3.0F / 12.0F,
    -0.0F, -0.0625F / 12.0F, -8.0F / 12.0F, -12.0F / 12.0F, -4.0F / 12.0F, -6.0F / 12.0F, -2.0F / 12.0F, -3.0F / 12.0F};

void addState(TensorFile &file, const std::string &kind, const float *levels, const std::string &more,
              const std::string &type, const std::string &dtype)
{
    const std::string text = R"({"quant_type": ")" + type + R"(", "blocksize": 64, "dtype": ")" + dtype
        + R"(", "shape": [)" + std::to_string(rows) + ", " + std::to_string(columns) + "]" + more + "}";
    file.add("m.weight.quant_state.bitsandbytes__" + kind, "U8", {static_cast<std::int64_t>(text.size())},
             std::vector<char>(text.begin(), text.end()));
    file.add("m.weight.quant_map", "F32", {16}, std::vector<float>(levels, levels + 16));
}

void addNf4State(TensorFile &file, const std::string &more, const std::string &type = "nf4",
                 const std::string &dtype = "float32")
{
    addState(file, "nf4", nf4, more, type, dtype);
}

QuantizedScheme nf4Scheme()
{
    QuantizedScheme scheme;
    scheme.layout = Layout::Levels4;
    return scheme;
}

} // namespace

class QuantizedBytesTest : public QObject {
    Q_OBJECT
private slots:
    void float8Scales_data();
    void float8Scales();
    void float8PartialBlocks();
    void float8Senses();
    void bytesWithScales();
    void int8Activations();
    void fiveBitExponents();
    void int8Rows();
    void levels_data();
    void levels();
    void nf4Nested();
    void nf4Refusals();
    void unknownPartsAreRefused();
};

void QuantizedBytesTest::float8Scales_data()
{
    QTest::addColumn<int>("form");
    QTest::newRow("scalar") << 0;
    QTest::newRow("one") << 1;
    QTest::newRow("rows") << 2;
    QTest::newRow("rows as a column") << 3;
}

void QuantizedBytesTest::float8Scales()
{
    QFETCH(int, form);
    Folder folder;
    folder.file.add("m.weight", "F8_E4M3", {rows, columns}, codes(rows, columns));
    std::vector<float> scales;
    for (std::int64_t row = 0; row < (form < 2 ? 1 : rows); ++row)
        scales.push_back(static_cast<float>(row + 1) / 300.0F);
    const std::vector<std::vector<std::int64_t>> shapes = {{}, {1}, {rows}, {rows, 1}};
    folder.file.add("m.weight_scale", "F32", shapes[static_cast<std::size_t>(form)], scales);
    folder.file.add("m.input_scale", "F32", {}, std::vector<float>{7.0F}); // of activations, which stay floats
    const QuantizedMatrix matrix = folder.read(float8());
    QCOMPARE(matrix.type, DType::FP8);
    QCOMPARE(expand(matrix), matrixOf([&](std::int64_t row, std::int64_t k) {
                 return e4m3(code(row, k)) * scales[scales.size() == 1 ? 0 : static_cast<std::size_t>(row)];
             }));
}

/// Blocks at the edges are partial in both directions.
void QuantizedBytesTest::float8PartialBlocks()
{
    constexpr std::int64_t height = 130;
    constexpr std::int64_t width = 160;
    const std::vector<float> scales = {0.25F, 0.003F, 0.07F, 0.0011F};
    Folder folder;
    folder.file.add("m.weight", "F8_E4M3", {height, width}, codes(height, width));
    folder.file.add("m.weight_scale_inv", "F32", {2, 2}, scales);
    QCOMPARE(expand(folder.read(float8(128, 128))),
             matrixOf(
                 [&](std::int64_t row, std::int64_t k) {
                     return e4m3(code(row, k)) * scales[static_cast<std::size_t>(row / 128 * 2 + k / 128)];
                 },
                 height, width));
    const QString refusal = folder.refusal(float8(64, 64));
    QVERIFY2(refusal.contains(QStringLiteral("[2, 2], wanted [3, 3]")), qPrintable(refusal));
}

/// weight_scale_inv multiplies, unless the configuration says that it is an inverse.
void QuantizedBytesTest::float8Senses()
{
    const auto withScale = [](Folder &folder, float value) {
        folder.file.add("m.weight", "F8_E4M3", {rows, columns}, codes(rows, columns));
        folder.file.add("m.weight_scale_inv", "F32", {}, std::vector<float>{value});
    };
    const auto times = [](float factor) {
        return matrixOf([factor](std::int64_t row, std::int64_t k) { return e4m3(code(row, k)) * factor; });
    };
    Folder multiplies;
    withScale(multiplies, 0.125F);
    QCOMPARE(expand(multiplies.read(float8())), times(0.125F));
    QVERIFY(multiplies.refusal(float8(0, 0, true)).contains(QStringLiteral("wanted scales that divide")));
    Folder divides;
    withScale(divides, 8.0F);
    QCOMPARE(expand(divides.read(float8(0, 0, true))), times(0.125F));
    QVERIFY(divides.refusal(float8()).contains(QStringLiteral("wanted scales that multiply")));
    Folder none;
    none.file.add("m.weight", "F8_E4M3", {rows, columns}, codes(rows, columns));
    QVERIFY(none.refusal(float8()).contains(QStringLiteral("\"m.weight_scale\", which is missing")));
    Folder fused; // one scale for each of three parts of a matrix that is one here
    fused.file.add("m.weight", "F8_E4M3", {rows, columns}, codes(rows, columns));
    fused.file.add("m.weight_scale", "F32", {3}, std::vector<float>{0.5F, 0.25F, 0.125F});
    QVERIFY(fused.refusal(float8()).contains(QStringLiteral("m.weight_scale")));
}

void QuantizedBytesTest::bytesWithScales()
{
    std::vector<std::int8_t> numbers;
    std::vector<std::int8_t> zeros;
    std::vector<float> scales;
    for (std::int64_t i = 0; i < rows * columns; ++i)
        numbers.push_back(static_cast<std::int8_t>(number(i / columns, i % columns, 8) - 128));
    for (std::int64_t row = 0; row < rows; ++row) {
        scales.push_back(scale(row, 0));
        zeros.push_back(static_cast<std::int8_t>(row * 7 - 110));
    }
    QVERIFY(std::find(numbers.begin(), numbers.end(), -128) != numbers.end());
    for (const bool withZeros : {false, true}) {
        Folder folder;
        folder.file.add("m.weight", "I8", {rows, columns}, numbers);
        folder.file.add("m.weight_scale", "F32", {rows, 1}, scales);
        if (withZeros)
            folder.file.add("m.weight_zero_point", "I8", {rows, 1}, zeros);
        const QuantizedMatrix matrix = folder.read(compressed(8, 0));
        QCOMPARE(matrix.type, withZeros ? DType::INT8Z : DType::INT8);
        QCOMPARE(expand(matrix), matrixOf([&](std::int64_t row, std::int64_t k) {
                     const int taken = withZeros ? zeros[static_cast<std::size_t>(row)] : 0;
                     return static_cast<float>(number(row, k, 8) - 128 - taken) * scale(row, 0);
                 }));
    }
}

/// Symmetric weights that the configuration wants beside int8 activations have a type of their own.
void QuantizedBytesTest::int8Activations()
{
    const std::vector<std::int8_t> numbers(static_cast<std::size_t>(rows * columns), 5);
    const auto folderWith = [&](std::vector<float> inputScale, std::int8_t zero) {
        Folder folder;
        folder.file.add("m.weight", "I8", {rows, columns}, numbers);
        folder.file.add("m.weight_scale", "F16", {1}, std::vector<std::uint16_t>{0x3800}); // 0.5
        folder.file.add("m.weight_zero_point", "I8", {1}, std::vector<std::int8_t>{zero});
        if (!inputScale.empty())
            folder.file.add("m.input_scale", "F32", {static_cast<std::int64_t>(inputScale.size())}, inputScale);
        return folder;
    };
    QuantizedScheme scheme = compressed(8, 0);
    scheme.int8Activations = true;
    Folder plain = folderWith({}, 0);
    const QuantizedMatrix matrix = plain.read(scheme);
    QCOMPARE(matrix.type, DType::W8A8);
    QCOMPARE(matrix.activationScale, 0.0F);
    QCOMPARE(expand(matrix), matrixOf([](std::int64_t, std::int64_t) { return 2.5F; }));
    QCOMPARE(folderWith({}, 3).read(scheme).type, DType::INT8Z);
    QCOMPARE(plain.read(compressed(8, 0)).type, DType::Q8_0);
    scheme.fixedActivations = true;
    QCOMPARE(folderWith({0.125F}, 0).read(scheme).activationScale, 0.125F);
    QVERIFY(plain.refusal(scheme).contains(QStringLiteral("\"m.input_scale\", which is missing")));
    QVERIFY(folderWith({0.1F, 0.2F}, 0).refusal(scheme).contains(QStringLiteral("has 2 numbers, wanted one")));
    QVERIFY(folderWith({-1.0F}, 0).refusal(scheme).contains(QStringLiteral("wanted a scale above 0")));
}

/// E5M2 is the upper half of a half.
void QuantizedBytesTest::fiveBitExponents()
{
    const auto byteOf = [](std::int64_t row, std::int64_t k) { return (row * 37 + k * 11) % 124 + (k % 2) * 128; };
    std::vector<std::uint8_t> bytes;
    for (std::int64_t i = 0; i < rows * columns; ++i)
        bytes.push_back(static_cast<std::uint8_t>(byteOf(i / columns, i % columns)));
    Folder folder;
    folder.file.add("m.weight", "F8_E5M2", {rows, columns}, bytes);
    folder.file.add("m.weight_scale", "F32", {}, std::vector<float>{0.03F});
    const QuantizedMatrix matrix = folder.read(float8());
    QCOMPARE(matrix.type, DType::FP8_E5M2);
    QCOMPARE(expand(matrix), matrixOf([&](std::int64_t row, std::int64_t k) {
                 const auto byte = static_cast<int>(byteOf(row, k));
                 const int exponent = byte >> 2 & 31;
                 const double size =
                     exponent == 0 ? std::ldexp(byte & 3, -16) : std::ldexp(4 + (byte & 3), exponent - 17);
                 return static_cast<float>((byte & 0x80) != 0 ? -size : size) * 0.03F;
             }));
}

/// The largest number of a row is 127.
void QuantizedBytesTest::int8Rows()
{
    std::vector<std::int8_t> numbers;
    std::vector<float> largest;
    for (std::int64_t i = 0; i < rows * columns; ++i)
        numbers.push_back(static_cast<std::int8_t>(number(i / columns, i % columns, 8) - 128));
    for (std::int64_t row = 0; row < rows; ++row)
        largest.push_back(scale(row, 0) * 100.0F);
    QuantizedScheme scheme;
    scheme.layout = Layout::Int8Rows;
    for (const int format : {-1, 0, 2}) {
        Folder folder;
        folder.file.add("m.weight", "I8", {rows, columns}, numbers);
        folder.file.add("m.SCB", "F32", {rows}, largest);
        if (format >= 0)
            folder.file.add("m.weight_format", "U8", {}, std::vector<std::uint8_t>{static_cast<std::uint8_t>(format)});
        if (format == 2) {
            QVERIFY(folder.refusal(scheme).contains(QStringLiteral("is 2, wanted 0")));
            continue;
        }
        const QuantizedMatrix matrix = folder.read(scheme);
        QCOMPARE(matrix.type, DType::INT8);
        QCOMPARE(expand(matrix), matrixOf([&](std::int64_t row, std::int64_t k) {
                     return static_cast<float>(number(row, k, 8) - 128)
                         * (largest[static_cast<std::size_t>(row)] * 7.874015718698502e-3F);
                 }));
    }
    Folder none;
    none.file.add("m.weight", "I8", {rows, columns}, numbers);
    QVERIFY(none.refusal(scheme).contains(QStringLiteral("\"m.SCB\", which is missing")));
}

void QuantizedBytesTest::levels_data()
{
    QTest::addColumn<QString>("kind");
    QTest::addColumn<QString>("dtype");
    for (const char *kind : {"nf4", "fp4"}) {
        for (const char *dtype : {"float32", "float16", "bfloat16"})
            QTest::addRow("%s of %s", kind, dtype) << QString::fromLatin1(kind) << QString::fromLatin1(dtype);
    }
}

/// Values are rounded to the type that the weights had.
void QuantizedBytesTest::levels()
{
    QFETCH(QString, kind);
    QFETCH(QString, dtype);
    const float *levels = kind == QStringLiteral("nf4") ? nf4 : fp4;
    std::vector<float> largest; // a row of 96 begins inside a block of 64
    for (std::int64_t block = 0; block < rows * columns / 64; ++block)
        largest.push_back(std::ldexp(static_cast<float>(block + 1) / 7.0F, static_cast<int>(block * 5 % 41) - 27));
    Folder folder;
    folder.file.add("m.weight", "U8", {rows * columns / 2, 1}, nf4Bytes());
    folder.file.add("m.weight.absmax", "F32", {rows * columns / 64}, largest);
    addState(folder.file, kind.toStdString(), levels, "", kind.toStdString(), dtype.toStdString());
    const QuantizedMatrix matrix = folder.read(nf4Scheme());
    QCOMPARE(matrix.rows, rows);
    QCOMPARE(matrix.columns, columns);
    QCOMPARE(expand(matrix), matrixOf([&](std::int64_t row, std::int64_t k) {
                 const float value =
                     levels[number(row, k, 4)] * largest[static_cast<std::size_t>((row * columns + k) / 64)];
                 return dtype == QStringLiteral("float16") ? kernels::halfToFloat(kernels::floatToHalf(value))
                     : dtype == QStringLiteral("bfloat16") ? kernels::bf16ToFloat(kernels::floatToBf16(value))
                                                           : value;
             }));
}

void QuantizedBytesTest::nf4Nested()
{
    constexpr std::int64_t blocks = rows * columns / 64; // 48, in nested blocks of 16
    std::vector<std::uint8_t> stored;
    std::vector<float> map;
    for (std::int64_t i = 0; i < blocks; ++i)
        stored.push_back(static_cast<std::uint8_t>(i * 7 % 256));
    for (int i = 0; i < 256; ++i)
        map.push_back(static_cast<float>(i - 100) / 130.0F);
    const std::vector<float> nested = {0.5F, 2.0F, 0.3F};
    const float offset = 1.75F;
    Folder folder;
    folder.file.add("m.weight", "U8", {rows * columns / 2, 1}, nf4Bytes());
    folder.file.add("m.weight.absmax", "U8", {blocks}, stored);
    folder.file.add("m.weight.nested_absmax", "F32", {3}, nested);
    folder.file.add("m.weight.nested_quant_map", "F32", {256}, map);
    addNf4State(folder.file, R"(, "nested_blocksize": 16, "nested_dtype": "float32", "nested_offset": 1.75)");
    QCOMPARE(expand(folder.read(nf4Scheme())), matrixOf([&](std::int64_t row, std::int64_t k) {
                 const auto block = static_cast<std::size_t>((row * columns + k) / 64);
                 const float scaled = map[stored[block]] * nested[block / 16];
                 return nf4[number(row, k, 4)] * (scaled + offset);
             }));
}

void QuantizedBytesTest::nf4Refusals()
{
    const std::vector<float> largest(static_cast<std::size_t>(rows * columns / 64), 1.0F);
    Folder other;
    other.file.add("m.weight", "U8", {rows * columns / 2, 1}, nf4Bytes());
    other.file.add("m.weight.absmax", "F32", {rows * columns / 64}, largest);
    addNf4State(other.file, "", "fp4");
    QVERIFY(other.refusal(nf4Scheme()).contains(QStringLiteral("wanted nf4")));
    Folder wide;
    wide.file.add("m.weight", "U8", {rows * columns / 2, 1}, nf4Bytes());
    wide.file.add("m.weight.absmax", "F32", {rows * columns / 64}, largest);
    addNf4State(wide.file, "", "nf4", "float64");
    QVERIFY(wide.refusal(nf4Scheme()).contains(QStringLiteral("float64")));
    Folder cut;
    cut.file.add("m.weight", "U8", {10, 1}, std::vector<std::uint8_t>(10));
    cut.file.add("m.weight.absmax", "F32", {rows * columns / 64}, largest);
    addNf4State(cut.file, "");
    QVERIFY(cut.refusal(nf4Scheme()).contains(QStringLiteral("has 10 bytes, wanted 1536")));
    Folder noStatistics;
    noStatistics.file.add("m.weight", "U8", {rows * columns / 2, 1}, nf4Bytes());
    noStatistics.file.add("m.weight.absmax", "U8", {rows * columns / 64},
                          std::vector<std::uint8_t>(static_cast<std::size_t>(rows * columns / 64)));
    addNf4State(noStatistics.file, "");
    QVERIFY(noStatistics.refusal(nf4Scheme()).contains(QStringLiteral("dtype U8, wanted F32")));
}

void QuantizedBytesTest::unknownPartsAreRefused()
{
    for (const char *name : {"m.weight_scale_2", "m.weight_global_scale", "m.SCB", "m.pre_quant_scale"}) {
        Folder folder;
        folder.file.add("m.weight", "F8_E4M3", {rows, columns}, codes(rows, columns));
        folder.file.add("m.weight_scale", "F32", {}, std::vector<float>{0.5F});
        folder.file.add(name, "F32", {}, std::vector<float>{0.5F});
        QVERIFY2(folder.refusal(float8()).contains(QString::fromLatin1(name)), name);
    }
}

QTEST_GUILESS_MAIN(QuantizedBytesTest)
#include "tst_quantized_bytes.moc"
